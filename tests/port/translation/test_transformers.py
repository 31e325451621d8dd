"""Architectures of ``transformers``: the kept table of one source at two sizes, and a large one, proved small."""

from __future__ import annotations

import json
import resource
import time
import warnings

import numpy as np
import pytest
import torch

pytest.importorskip("transformers", reason="an extra of the tests'")

import port

from .transformers_models import LENGTH, NAMED, transformers
from .transformers_table import TABLE, is_whole

SMALL = {
    "config.num_hidden_layers": 2,
    "config.hidden_size": 64,
    "config.num_attention_heads": 4,
    "config.intermediate_size": 96,
    "config.vocab_size": 1000,
}


SECONDS = 840.0
"""After 900 pytest ends the whole run."""
GAPS = {
    "T5EncoderModel": "its width does not move: as many buckets as channels in the small one, a start is said by a "
    "length of the table where it is one's, and by a number at 16",
}
"""Architectures that do not follow yet, and why."""


def test_the_table_is_of_the_architectures() -> None:
    assert TABLE.rows().keys() <= NAMED.keys()
    for name, row in TABLE.rows().items():
        # A tuple is a list in JSON.
        assert row["small"] == json.loads(json.dumps(NAMED[name].small)), name
        assert row["larger"] == json.loads(json.dumps(NAMED[name].larger)), name


def test_what_is_in_the_table_is_whole_or_a_known_gap() -> None:
    assert {name for name, row in TABLE.rows().items() if not is_whole(row)} <= GAPS.keys()
    assert all(row["agrees"] for row in TABLE.rows().values())


def test_what_was_not_compared_is_not_whole() -> None:
    row = next(row for row in TABLE.rows().values() if is_whole(row))
    for rows in ("rows", "there"):
        for what in ("outputs in evaluation", "gradients in training"):
            assert not is_whole({**row, rows: {name: value for name, value in row[rows].items() if name != what}})
        assert not is_whole({**row, rows: {name: value for name, value in row[rows].items() if " at " not in name}})
    assert not is_whole({**row, "follows": False})
    assert not is_whole({**row, "calls": row["calls"] + 1})


@pytest.mark.sweep
@pytest.mark.daily(12)  # each takes minutes
@pytest.mark.parametrize("name", [name for name in NAMED if name not in GAPS])
def test_an_architecture_is_as_whole_as_the_table_says(name: str) -> None:
    row = TABLE.alone(name, SECONDS)
    assert is_whole(row), row


def bert_base() -> torch.nn.Module:
    """BERT base: 12 layers of 768, 110 million parameters."""
    module: torch.nn.Module = transformers.BertModel(transformers.BertConfig())
    return module.eval()


@pytest.mark.sweep
def test_a_large_model_is_proved_small_and_run_large() -> None:
    with torch.device("meta"):
        module = bert_base()
    mask = torch.ones(2, LENGTH, dtype=torch.long)
    mask[0, 7:] = 0
    given = {"input_ids": torch.randint(1, 1000, (2, LENGTH)), "attention_mask": mask}
    began = time.perf_counter()
    made = port.translate(module, (), given, construct=bert_base, at=SMALL)
    translated = time.perf_counter()
    assert made.proof is not None
    assert made.proof.agrees, str(made.proof)
    assert all("with config.num_hidden_layers = 2" in row.what for row in made.proof.rows)
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        real = bert_base()
    constructed = time.perf_counter()
    ours = made.build(arguments={}, weights=real)
    built = time.perf_counter()
    ours.eval()
    with torch.no_grad():
        theirs = real(**given)
    results = ours(**{name: array.numpy() for name, array in given.items()})
    differences = {}
    for name, tensor in theirs.items():
        expected = tensor.numpy()
        differences[name] = float(np.abs(np.asarray(results[name]) - expected).max() / np.abs(expected).max())
    gigabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"\ntranslated in {translated - began:.0f} s, built in {built - constructed:.0f} s, {gigabytes:.1f} GB")
    print(differences)
    assert max(differences.values()) < 1e-5, differences
