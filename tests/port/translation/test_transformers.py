"""Architectures of ``transformers``: one source at two sizes; and a large one that is proved small and run large."""

from __future__ import annotations

import resource
import time
import warnings

import numpy as np
import pytest
import torch

pytest.importorskip("transformers", reason="an extra of the tests'")

import port

from .transformers_models import ARCHITECTURES, LENGTH, Architecture, transformers

SMALL = {
    "config.num_hidden_layers": 2,
    "config.hidden_size": 64,
    "config.num_attention_heads": 4,
    "config.intermediate_size": 96,
    "config.vocab_size": 1000,
}


@pytest.mark.sweep
@pytest.mark.daily(6)
@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda architecture: architecture.name)
def test_one_source_is_the_same_model_at_two_sizes(architecture: Architecture) -> None:
    larger = {f"config.{name}": value for name, value in architecture.larger.items()}
    module = architecture.build()
    construct = architecture.build if architecture.is_told else None
    made = port.translate(module, cases=architecture.inputs(), construct=construct, at=larger)
    assert made.proof is not None
    assert made.proof.agrees, str(made.proof)
    print(f"\n{architecture.name}: {len(made.source.splitlines())} lines, {len(made.settings.tried)} tried")
    for what, why in made.settings.fixed.items():
        print(f"  {what}: {why}")
    rows = [row.what for row in made.proof.rows]
    for name in ("outputs in evaluation", "gradients in training"):
        assert any(what.startswith(name) and "with config." in what for what in rows)
    numbers = range(2, 1 + len(architecture.inputs()))
    assert all(
        any(f"in example call {number}" in what and "with config." in what for what in rows) for number in numbers
    )


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
