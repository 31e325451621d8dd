"""Weights between language models that were written apart: fused against separate attention, tied against untied heads,
a list of blocks against one scanned block.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
import pytest
import torch

import port
from models.agreement import (
    AGREES,
    VISIBLE,
    Seen,
    compiled_output,
    difference,
    differences,
    empty,
    output_of,
    randomise,
    run_linen,
    run_nnx,
    run_torch,
    worst,
)
from models.gpt import VOCABULARY, FlaxGPT, TorchGPT, mapping_file
from models.gpt_scanned import MAPPING_FILE, ScannedGPT
from port.errors import WeightsMismatch
from port.mapping import Entry, Mapping, between

pytestmark = pytest.mark.sweep  # what the pairs' own tests see of it is in the short run

TOKENS = np.random.default_rng(0).integers(0, VOCABULARY, (3, 7))


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def theirs() -> TorchGPT:
    model = randomise(TorchGPT())
    assert isinstance(model, TorchGPT)
    return model


@pytest.fixture(scope="module")
def expected(theirs: TorchGPT) -> Seen:
    return run_torch(theirs, TOKENS)


def written(folder: Path, text: str) -> Path:
    path = folder / "mapping.toml"
    path.write_text(text)
    return path


def assert_comes_back(state: dict[str, torch.Tensor], original: torch.nn.Module) -> None:
    assert list(state) == list(original.state_dict())
    for name, tensor in original.state_dict().items():
        assert torch.equal(state[name], tensor), name
    TorchGPT().double().load_state_dict(state, strict=True)


# %% nnx: queries, keys and values apart


def test_a_gpt_with_a_tied_head(theirs: TorchGPT, expected: Seen, tmp_path: Path) -> None:
    rules = written(tmp_path, mapping_file(tied=True))
    ours = empty(FlaxGPT, tied=True)
    port.load(ours, theirs.state_dict(), rename=rules)
    seen = differences(expected, run_nnx(ours, TOKENS), between(theirs, ours, rename=rules))
    assert worst(seen)[1] <= AGREES, worst(seen)
    assert_comes_back(port.to_torch(ours, like=TorchGPT(), rename=rules), theirs)


def test_a_gpt_with_a_head_of_its_own(theirs: TorchGPT, expected: Seen, tmp_path: Path) -> None:
    rules = written(tmp_path, mapping_file(tied=False))
    ours = empty(FlaxGPT, tied=False)
    port.load(ours, theirs, rename=rules)
    run = run_nnx(ours, TOKENS)
    # One weight there, two here: each gets its part of the gradient.
    embedding, head = run.gradients.pop("tokens.embedding"), run.gradients.pop("head.kernel")
    whole = {**run.gradients, "tokens.embedding": embedding + head.T, "head.kernel": head + embedding.T}
    together = Seen(run.output, run.input_gradient, whole, run.statistics)
    seen = differences(expected, together, between(theirs, ours, rename=rules))
    assert worst(seen)[1] <= AGREES, worst(seen)
    assert difference(embedding, expected.gradients["lm_head.weight"]) > VISIBLE
    assert_comes_back(port.to_torch(ours, like=TorchGPT(), rename=rules), theirs)


def test_heads_that_were_trained_apart_cannot_come_back_into_one(theirs: TorchGPT, tmp_path: Path) -> None:
    rules = written(tmp_path, mapping_file(tied=False))
    ours = empty(FlaxGPT, tied=False)
    port.load(ours, theirs, rename=rules)
    assert ours.head is not None
    ours.head.kernel[...] = ours.head.kernel[...] * 1.01
    with pytest.raises(WeightsMismatch, match="head"):
        port.to_torch(ours, like=TorchGPT(), rename=rules)


def test_a_square_weight_that_is_not_transposed_is_seen(theirs: TorchGPT, expected: Seen, tmp_path: Path) -> None:
    source, target = r"transformer\.h\.(\d+)\.attn\.c_proj\.weight", r"blocks.\1.out.kernel"
    as_it_is = f"\n[[rule]]\nsource = '{source}'\ntarget = '{target}'\n"
    rules = written(tmp_path, mapping_file(tied=True) + as_it_is)
    ours = empty(FlaxGPT, tied=True)
    port.load(ours, theirs.state_dict(), rename=rules)
    assert difference(output_of(ours, TOKENS), expected.output) > VISIBLE


def test_another_number_of_heads_is_seen(theirs: TorchGPT, expected: Seen, tmp_path: Path) -> None:
    ours = empty(FlaxGPT, tied=True, heads=6)
    port.load(ours, theirs.state_dict(), rename=written(tmp_path, mapping_file(tied=True)))
    assert difference(output_of(ours, TOKENS), expected.output) > VISIBLE


# %% Linen: the blocks stacked for a scan


@pytest.fixture
def scan_rules(tmp_path: Path) -> Path:
    return written(tmp_path, MAPPING_FILE)


@pytest.mark.sweep
def test_a_gpt_whose_blocks_are_scanned(theirs: TorchGPT, expected: Seen, scan_rules: Path) -> None:
    ours = ScannedGPT()
    variables = port.to_flax(theirs.state_dict(), target=ours, rename=scan_rules, inputs=TOKENS)
    mapping = between(theirs, ours, rename=scan_rules, inputs=TOKENS)
    seen = differences(expected, run_linen(ours, variables, TOKENS), mapping)
    assert worst(seen)[1] <= AGREES, worst(seen)
    back = port.to_torch(variables, like=TorchGPT(), model=ours, rename=scan_rules, inputs=TOKENS)
    assert_comes_back(back, theirs)


def swapped_layers(entry: Entry) -> Entry:
    """The entry with the second and the third layer in each other's place."""
    if len(entry.sources) != 3:
        return entry
    first, second, third = entry.sources
    return Entry((first, third, second), entry.targets, entry.moves, entry.collection, entry.shapes, entry.optional)


def swapped_attention(entry: Entry) -> Entry:
    """The entry with queries and keys in each other's place."""
    if len(entry.targets) != 3:
        return entry
    query, key, value = entry.targets
    return Entry(entry.sources, (key, query, value), entry.moves, entry.collection, entry.shapes, entry.optional)


@pytest.mark.parametrize("fault", [swapped_layers, swapped_attention])
def test_a_wrong_stack_is_seen(fault: object, theirs: TorchGPT, expected: Seen, scan_rules: Path) -> None:
    assert callable(fault)
    ours = ScannedGPT()
    mapping = between(theirs, ours, rename=scan_rules, inputs=TOKENS)
    wrong = Mapping(tuple(map(fault, mapping.entries)))
    assert wrong != mapping
    outputs = {}
    for name, each in (("right", mapping), ("wrong", wrong)):
        variables = port.to_flax(theirs.state_dict(), rename=each)
        outputs[name] = compiled_output(ours.apply, {"params": variables["params"]}, TOKENS)
    assert difference(outputs["right"], expected.output) <= AGREES
    assert difference(outputs["wrong"], expected.output) > VISIBLE
