"""A translation in use: its module runs on the original's inputs, in any precision and batch size."""

from __future__ import annotations

import ast
import copy
import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx
from torch import Tensor, nn

import port
from port.errors import UsageError
from port.judging import TENSORS
from port.parity.compare.distance import difference
from port.translation import Translation

from .nets import INPUTS, Attention, Block, Blocks, Small, translated

NETS = pytest.mark.parametrize("cls", [Small, Attention, Blocks])


def first(results: Any) -> Any:
    return results["logits"] if isinstance(results, dict) else results


def apart(cls: type[nn.Module], batch: int) -> float:
    """The distance of the outputs in evaluation in float64, for other inputs than the translated ones."""
    module, translation = translated(cls)
    x = INPUTS[cls](batch, seed=3)
    wide = copy.deepcopy(module).double().eval()
    with jax.enable_x64(True):
        written = translation.build(param_dtype=jnp.float64)
        written.eval()
        given = x.double() if x.is_floating_point() else x
        ours = translation.to_torch(written(*translation.to_flax(given)))
    with torch.no_grad():
        theirs = wide(given)
    assert first(ours).dtype == torch.float64
    return difference(first(theirs).numpy(), first(ours).numpy())


@pytest.mark.thin(3)
@NETS
def test_the_batch_size_is_free(cls: type[nn.Module]) -> None:
    assert apart(cls, 5) <= TENSORS["translation"].forward


@pytest.mark.sweep
@pytest.mark.parametrize("batch", [1, 2, 7])
@NETS
def test_other_batch_sizes(cls: type[nn.Module], batch: int) -> None:
    assert apart(cls, batch) <= TENSORS["translation"].forward


@pytest.mark.sweep
def test_all_lengths_are_free_if_asked_for() -> None:
    module = copy.deepcopy(translated(Attention)[0]).eval()
    translation = port.translate(module, INPUTS[Attention](), check=False)
    assert all(isinstance(size, str) for size in translation.lengths.shapes[0][:2])
    translation.module.eval()
    for length in (1, 9):
        x = torch.randn(3, length, 8)
        ours = translation.to_torch(translation.module(*translation.to_flax(x)))
        assert np.allclose(ours.numpy(), module(x).detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.sweep
def test_a_precision_of_the_parameters() -> None:
    _, translation = translated(Attention)
    x = INPUTS[Attention]()
    written = translation.build(param_dtype=jnp.bfloat16)
    assert {variable.dtype for _, variable in nnx.to_flat_state(nnx.state(written, nnx.Param))} == {
        jnp.dtype(jnp.bfloat16)
    }
    ours = translation.to_torch(written(*translation.to_flax(x.bfloat16())))
    assert ours.dtype == torch.bfloat16
    theirs = copy.deepcopy(translated(Attention)[0]).bfloat16()(x.bfloat16())
    # bfloat16 has 8 bits: a few of its steps.
    assert difference(theirs.detach().float().numpy(), ours.float().numpy()) < 2**-5


@pytest.mark.sweep
def test_without_the_weights_it_is_a_new_model() -> None:
    _, translation = translated(Small)
    cls = getattr(translation.code, translation.name)
    one, other, again = (cls(rngs=nnx.Rngs(seed)) for seed in (0, 1, 0))
    assert not np.array_equal(one.conv.kernel[...], other.conv.kernel[...])
    assert np.array_equal(one.conv.kernel[...], again.conv.kernel[...])
    assert not np.array_equal(one.conv.kernel[...], translation.values["conv.kernel"])
    assert np.array_equal(translation.build(filled=False).conv.kernel[...], one.conv.kernel[...])
    kernel = np.asarray(one.head.kernel[...])
    assert 0 < np.abs(kernel).max() <= 24**-0.5 + 1e-6  # drawn as torch.nn.Linear's are
    assert np.asarray(one(jnp.ones((2, 6, 4, 2)))).shape == (2, 3)


@pytest.mark.sweep
def test_the_module_has_the_originals_weights_and_memory_of_its_own() -> None:
    module, translation = translated(Small)
    written = translation.build()
    assert np.array_equal(written.norm.scale[...], module.norm.weight.detach().numpy())
    written.norm.scale[...] = written.norm.scale[...] + 1
    assert np.array_equal(translation.values["norm.scale"], module.norm.weight.detach().numpy())
    assert translation.params is translation.values
    assert translation.module is translation.module


def test_two_instances_of_one_class_are_one_class() -> None:
    _, translation = translated(Blocks)
    assert translation.source.count("class Block(") == 1
    taken = inspect.signature(translation.code.Block.__init__).parameters
    original = inspect.signature(Block.__init__).parameters
    # What differs is an argument, called as in the original, in its order and with its default.
    assert [name for name in taken if name in original] == ["self", "hidden", "scale"]
    assert taken["scale"].default == original["scale"].default == 1.0
    assert "for block in self.blocks:" in translation.source


@pytest.mark.sweep
def test_each_instance_is_given_its_own_numbers() -> None:
    _, translation = translated(Blocks)
    written = translation.module
    assert [block.scale for block in written.blocks] == [0.5, 1.0]
    assert [block.up.kernel.shape for block in written.blocks] == [(5, 6), (5, 9)]


@pytest.mark.sweep
def test_a_buffer_is_written_to_in_training_alone() -> None:
    _, translation = translated(Blocks)
    written = translation.build()
    (given,) = translation.to_flax(INPUTS[Blocks]())
    written.eval()
    written(given)
    before = np.asarray(written.calls[...])
    written.train()
    written(given)
    assert np.array_equal(np.asarray(written.calls[...]), before + 1)


@pytest.mark.sweep
def test_results_have_the_originals_tree() -> None:
    module, translation = translated(Blocks)
    x = INPUTS[Blocks]()
    with torch.no_grad():
        theirs = copy.deepcopy(module).eval()(x)
    written = translation.build()
    written.eval()
    ours = translation.to_torch(written(*translation.to_flax(x)))
    assert list(ours) == list(theirs)
    for name, tensor in theirs.items():
        assert ours[name].shape == tensor.shape and ours[name].dtype == tensor.dtype


@NETS
def test_what_is_known_of_it(cls: type[nn.Module]) -> None:
    _, translation = translated(cls)
    assert translation.name == cls.__name__
    assert translation.proof is None and translation.unwritten == ()
    assert isinstance(translation.lengths.shapes[0][0], str)
    assert not translation.mixed and translation.prefix == ""
    for places in translation.notes.values():
        assert places == sorted(places)
        assert all(place.rpartition(":")[0].endswith(".py") for place in places)


class Pooled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 5, 3)
        self.head = nn.Linear(5, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.flatten(nn.functional.adaptive_avg_pool2d(self.conv(x).relu(), (1, 1)), 1))


@pytest.mark.sweep
def test_what_nothing_reads_is_not_counted() -> None:
    translation = port.translate(Pooled(), torch.randn(2, 3, 6, 7), check=False)
    assert "axis" not in translation.source.replace("axis=-1", "")
    assert translation.transposes == 0


def test_the_transposes_that_were_written_are_counted() -> None:
    assert translated(Blocks)[1].transposes == 0
    text = translated(Attention)[1].source
    written = sum(text.count(name) for name in ("swapaxes", "moveaxis", "matrix_transpose", "jnp.transpose"))
    assert translated(Attention)[1].transposes <= written


def test_a_name_for_the_file() -> None:
    assert 'with_name("small.safetensors")' in translated(Small)[1].source


@pytest.fixture(scope="module")
def alone() -> tuple[nn.Module, Translation]:
    layer = nn.Conv2d(2, 3, 3, padding=1)
    return layer, port.translate(layer, torch.randn(2, 2, 4, 4), name="first", check=False)


@pytest.mark.sweep
def test_a_layer_alone(alone: tuple[nn.Module, Translation]) -> None:
    layer, translation = alone
    assert [entry.sources for entry in translation.mapping.entries] == [("weight",), ("bias",)]
    assert 'with_name("first.safetensors")' in translation.source
    x = torch.randn(3, 2, 5, 4)
    ours = translation.to_torch(translation.module(*translation.to_flax(x)))
    assert np.allclose(ours.numpy(), layer(x).detach().numpy(), rtol=1e-4, atol=1e-5)


class Unknown(nn.Module):
    """Has no pair."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.special.airy_ai(x) + 1


@pytest.fixture(scope="module")
def unknown() -> Translation:
    return port.translate(Unknown(), torch.randn(2, 3))


def test_what_no_pair_speaks_of_is_said_and_nothing_is_proved(unknown: Translation) -> None:
    (missing,) = unknown.unwritten
    assert missing.what.startswith("aten.special_airy_ai")
    assert missing.place is not None and missing.place.file == __file__
    assert unknown.proof is None


def test_the_source_knows_every_name_that_it_uses(unknown: Translation) -> None:
    tree = ast.parse(unknown.source)
    read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert "unwritten" not in read or hasattr(unknown.code, "unwritten")


class Optional(nn.Module):
    """Arguments that gather others."""

    def forward(self, x: Tensor, *more: Tensor, **named: Tensor) -> Tensor:
        return x + more[0] * named["scale"]


def test_stars_are_taken_as_they_are_given() -> None:
    x, y, scale = torch.randn(2, 3), torch.randn(2, 3), torch.randn(3)
    translation = port.translate(Optional(), (x, y), {"scale": scale}, check=False)
    assert "def __call__(self, x: jax.Array, *more: jax.Array, **named: Any)" in translation.source
    assert torch.allclose(translation.run(x, y, scale=scale), x + y * scale)


@pytest.mark.sweep
@NETS
def test_the_original_is_left_as_it_is(cls: type[nn.Module]) -> None:
    module = copy.deepcopy(translated(cls)[0])
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    x = INPUTS[cls]()
    given = x.clone()
    port.translate(module, x, check=cls is Attention)
    assert module.training and torch.equal(x, given)
    after = module.state_dict()
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())
    assert all("forward" not in vars(inner) for inner in module.modules())


@pytest.mark.parametrize(
    "call", [{"args": (torch.zeros(0, 3),)}, {"cases": [(torch.ones(2, 3),), {"input": torch.zeros(0, 3)}]}]
)
def test_an_empty_batch_proves_nothing(call: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"input (0|input) has shape \(0, 3\): there is nothing to compare"):
        port.translate(nn.Linear(3, 2), **call)


class Rows(nn.Module):
    """The first rows alone, none of them in some modes."""

    def __init__(self, *empty: bool) -> None:
        super().__init__()
        self.linear, self.empty = nn.Linear(3, 2), empty

    def forward(self, x: torch.Tensor) -> Any:
        return self.linear(x)[: 0 if self.training in self.empty else 1]


@pytest.mark.thin(3)
@pytest.mark.parametrize("empty", [(True, False), (True,), (False,)], ids=["both", "training", "evaluation"])
def test_outputs_without_numbers_prove_nothing(empty: tuple[bool, ...]) -> None:
    torch.manual_seed(0)
    proof = port.translate(Rows(*empty), torch.randn(2, 3), static=True).proof
    assert proof is not None and proof.agrees == (len(empty) < 2), proof
    assert ("CANNOT BE JUDGED\n  the outputs hold no numbers" in str(proof)) == (len(empty) > 1)
    modes = {"training" if training else "evaluation" for training in empty}
    assert {mode for mode in ("training", "evaluation") if f"the outputs in {mode} hold no" in str(proof)} == modes


class From2(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return torch.tanh(x)[:, 2:]


@pytest.mark.sweep
def test_numbers_at_other_lengths_are_enough() -> None:
    proof = port.translate(From2(), torch.randn(3, 2, dtype=torch.float64)).proof
    assert proof is not None and proof.agrees, proof
    assert "outputs in evaluation at n = 2, t = 3" in str(proof), proof


class Returning(nn.Module):
    def __init__(self, what: Any) -> None:
        super().__init__()
        self.linear, self.what = nn.Linear(3, 2), what

    def forward(self, x: torch.Tensor) -> Any:
        self.linear(x)
        return self.what


@pytest.mark.parametrize(("what", "said"), [("text", "returned 'text'"), (None, "returned None"), ({"a": 3}, "'a': 3")])
def test_a_forward_that_returns_no_tensor(what: Any, said: str) -> None:
    with pytest.raises(UsageError, match=f"{said}.*holds no tensor"):
        port.translate(Returning(what), torch.ones(2, 3), check=False, static=True)
