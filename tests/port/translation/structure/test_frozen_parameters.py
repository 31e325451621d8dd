"""Frozen parameters in the written source: marked at the highest module without others, and never trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import optax
import pytest
import torch
from flax import nnx
from torch import nn

import port
from port.errors import WeightsMismatch
from port.mapping import read_mapping
from port.translation import Translation
from port.translation.folder import write_folder
from port.translation.verify import prove
from port.translation.verify.reverify import prove_files

from ..frozen_nets import (
    INPUTS,
    Adapters,
    Classifier,
    Enhance,
    Holders,
    Teacher,
    Tied,
    Words,
    all_norms,
    first_blocks,
    nothing_trained,
    parts_of_blocks,
)

pytestmark = pytest.mark.filterwarnings("ignore:`flax.nnx.State` will be deprecated:DeprecationWarning")

# What makes the module, and what stands in its source.
WRITTEN: dict[Callable[[], nn.Module], tuple[str, ...]] = {
    Enhance: ("self.bands = frozen(Bands(**options))", "self.down = nnx.Linear(7, 5,"),
    Classifier: ("self.backbone = frozen(Backbone(**options))", "for _ in range(3)"),
    first_blocks: ("nnx.Sequential(frozen(Block(**options)), frozen(Block(**options)), Block(**options))",),
    parts_of_blocks: ('frozen(Block(**options), "conv.kernel"), frozen(Block(**options), "scale", "conv")',),
    all_norms: ("self.norm = frozen(BatchNorm(4, **options))", "*[Block(**options) for _ in range(3)]"),
    nothing_trained: ("        frozen(self)\n",),
    Words: ("self.position = Frozen(", "self.table = frozen(nnx.Embed("),
    Tied: ("self.table = frozen(nnx.Embed(", "self.table.attend("),
    Adapters: ("self.base = frozen(nnx.Linear(a, b,", '"in_proj_weight")', '"self_attn",', '"linear1.kernel",'),
    Holders: (
        '**options), "bias")',
        "Frozen(nnx.init",
        "self.named = frozen(nnx.Dict(",
        "self.listed = frozen(",
        "for layer in self.listed:",
        "self.row = frozen(",
    ),
    Teacher: ("self.teacher.kernel[...] = lax.stop_gradient(", "self.mean[...] = "),
}
SWEEP = (pytest.mark.sweep, pytest.mark.daily(3))
QUICK = (Words, Teacher)
CASES = [made if made in QUICK else pytest.param(made, marks=SWEEP) for made in WRITTEN]


@cache
def translated(make: Callable[[], nn.Module]) -> tuple[nn.Module, torch.Tensor, Translation]:
    torch.manual_seed(3)
    module = make()
    x = INPUTS[type(module)]()
    return module, x, port.translate(module, x, name=f"{type(module).__name__.lower()}_flax")


def frozen_in_flax(made: Translation, module: Any) -> set[str]:
    """torch's names of what the written module holds as Frozen."""
    state = nnx.to_flat_state(nnx.state(module, nnx.Not(nnx.RngState)))
    kinds = {".".join(map(str, path)): type(variable).__name__ for path, variable in state}
    entries = [entry for entry in made.mapping.entries if all(kinds.get(path) == "Frozen" for path in entry.targets)]
    return {source for entry in entries for source in entry.sources}


def frozen_in_torch(module: nn.Module) -> set[str]:
    named = module.named_parameters(remove_duplicate=False)
    return {name for name, parameter in named if not parameter.requires_grad}


@pytest.mark.parametrize("make", CASES)
@pytest.mark.sweep
def test_what_torch_does_not_train_is_frozen(make: Callable[[], nn.Module]) -> None:
    module, _, made = translated(make)
    wanted = frozen_in_torch(module)
    for text in WRITTEN[make]:
        assert text in made.source
    assert wanted and frozen_in_flax(made, made.module) == wanted
    assert frozen_in_flax(made, made.code.__dict__[made.name](rngs=nnx.Rngs(1))) == wanted
    assert {
        source for entry in made.mapping.entries if entry.collection == "Frozen" for source in entry.sources
    } == wanted
    assert set(made.frozen) <= wanted
    assert made.proof is not None and made.proof.agrees, made.proof
    assert any(str(row) == f"frozen parameters: {len(made.frozen)}, the same on both sides" for row in made.proof.rows)


@pytest.mark.sweep
@pytest.mark.parametrize("make", CASES)
@pytest.mark.thin(2)
def test_an_optimizer_moves_the_same_parameters(make: Callable[[], nn.Module]) -> None:
    module, x, made = translated(make)
    theirs, ours = make(), made.build()
    theirs.load_state_dict(module.state_dict())
    sgd = torch.optim.SGD(theirs.parameters(), 0.1, weight_decay=0.5)
    theirs.eval()
    if made.trained:
        theirs(x).sum().backward()
    sgd.step()

    ours.eval()
    optimizer = nnx.Optimizer(ours, optax.chain(optax.add_decayed_weights(0.5), optax.sgd(0.1)), wrt=nnx.Param)
    optimizer.update(ours, nnx.grad(lambda model: made.boundary.call(model, made.to_flax(x)).sum())(ours))
    moved = port.to_torch(ours, like=theirs, rename=made.mapping)
    for name, tensor in theirs.state_dict().items():
        torch.testing.assert_close(moved[name], tensor, rtol=1e-4, atol=1e-5, msg=name)
        if name in frozen_in_torch(module):
            assert torch.equal(moved[name], module.state_dict()[name]), name


FAULTS = [
    (Words, "self.position = Frozen(", "self.position = nnx.Param(", "position by the written module"),
    pytest.param(
        Enhance, "frozen(Bands(**options))", "Bands(**options)", "bands.down.weight by the written module", marks=SWEEP
    ),
    (Words, "self.out = nnx.Linear(", "self.out = frozen(nnx.Linear)(", "out.weight by PyTorch, out.bias by PyTorch"),
    pytest.param(parts_of_blocks, '"conv.kernel")', '"conv")', "backbone.blocks.1.conv.bias by PyTorch", marks=SWEEP),
]


@pytest.mark.parametrize(("make", "before", "after", "seen"), FAULTS)
@pytest.mark.sweep
def test_the_proof_finds_what_one_side_alone_trains(
    make: Callable[[], nn.Module], before: str, after: str, seen: str
) -> None:
    module, x, made = translated(make)
    source = made.source.replace(before, after)
    if "frozen(nnx.Linear)(" in after:
        source = made.source.replace("        self.out = ", "        self.out = frozen(").replace(
            "bias_init=torch_bias(6), **options)", "bias_init=torch_bias(6), **options))"
        )
    assert source != made.source
    proof = prove(module, replace(made, source=source), (x,), {})
    assert not proof.agrees
    (row,) = [row for row in proof.rows if row.what == "frozen parameters"]
    assert not row.agrees and seen in str(row)


@pytest.mark.sweep
def test_the_proof_finds_a_write_to_a_frozen_parameter_that_is_lost() -> None:
    module, x, made = translated(Teacher)
    source = made.source.replace("self.mean[...] = ", "_ = ")
    assert source != made.source
    proof = prove(module, replace(made, source=source), (x,), {})
    differ = [(row.what.partition(" at ")[0], row.where) for row in proof.rows if not row.agrees]
    assert set(differ) == {("buffers after training", "mean")}


@pytest.mark.sweep
def test_the_files_prove_it_again_and_standalone(tmp_path: Path) -> None:
    module, x, made = translated(Words)
    write_folder(made, tmp_path / "out", name="words_flax")
    proof = prove_files(tmp_path / "out" / "words_flax.py", module, x)
    assert proof.agrees, proof
    mapping = read_mapping(tmp_path / "out" / "words_flax.mapping.toml")
    assert [entry.collection for entry in mapping.entries if entry.sources == ("position",)] == ["Frozen"]  # type: ignore[union-attr]

    alone = port.translate(module, x, standalone=True)
    assert "from port." not in alone.source and alone.proof is not None and alone.proof.agrees
    assert frozen_in_flax(alone, alone.module) == {"position", "table.weight"}


def test_a_module_whose_parameters_are_all_trained_is_written_as_before() -> None:
    made = port.translate(nn.Sequential(nn.Linear(3, 2)), torch.randn(4, 3))
    assert "rozen" not in made.source and made.frozen == () and len(made.trained) == 2
    assert made.proof is not None and all(row.what != "frozen parameters" for row in made.proof.rows)


def test_the_optimizer_of_the_original_goes_along() -> None:
    module, _, made = translated(Words)
    optimizer = torch.optim.AdamW(module.parameters(), 0.1, weight_decay=0.5)
    params = nnx.state(made.module, nnx.Param)
    transformation, state = port.to_optax(optimizer, params=params, mapping=made.mapping, model=module)
    assert "frozen" not in port.optax_source(optimizer, params=params, mapping=made.mapping, model=module)
    updates, _ = transformation.update(params, state, params)
    assert len(nnx.to_flat_state(updates)) == 2

    trained = Words()
    trained.position.requires_grad_(True)
    with pytest.raises(WeightsMismatch, match=r"torch trains position .* holds as port\.nn\.Frozen"):
        port.to_optax(torch.optim.AdamW(trained.parameters()), params=params, mapping=made.mapping, model=trained)


@pytest.mark.sweep
def test_a_whole_number_keeps_its_dtype() -> None:
    class Picks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.order = nn.Parameter(torch.tensor([2, 0, 3, 1]), requires_grad=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[:, self.order]

    made = port.translate(Picks(), torch.randn(3, 4))
    assert "self.order = Frozen(jnp.array([2, 0, 3, 1], int))" in made.source
    assert made.proof is not None and made.proof.agrees


def test_loading_and_the_way_back_leave_requires_grad() -> None:
    module, _, made = translated(Words)
    other = Words()
    other.load_state_dict(port.to_torch(made.module, like=other, rename=made.mapping))
    assert frozen_in_torch(other) == {"position", "table.weight"}
    for name, tensor in module.state_dict().items():
        np.testing.assert_array_equal(other.state_dict()[name], tensor)
    mapping = port.mapping.between(module, made.module)
    kinds = {entry.sources[0]: entry.collection for entry in mapping.entries}
    assert kinds == {"position": "Frozen", "table.weight": "Frozen", "out.weight": "params", "out.bias": "params"}
    assert set(port.to_flax(module, target=made.module)) == {"params", "Frozen"}
