"""Layers that are one stacked layer in Flax, and tied weights: which torch tensors go to one place."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import linen, nnx

from port.errors import WeightsMismatch
from port.mapping import Entry, Mapping, between
from port.mapping.grouping import Found, _stacked
from port.moves import Copy, EachBranch, Join, Split, Stack, Tie

STACKED = {r"blocks\.\d+\.": "blocks."}
COUNT = 11  # so that 10 comes after 2, and not before


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(3, 3)
        self.gain = torch.nn.Parameter(torch.randn(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.fc(x)) * self.gain


class Blocks(torch.nn.Module):
    def __init__(self, count: int = COUNT) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block() for _ in range(count))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


class NnxBlock(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.fc = nnx.Linear(3, 3, rngs=rngs)
        self.gain = nnx.Param(jnp.zeros(3))

    def __call__(self, x: jax.Array) -> jax.Array:
        return jnp.tanh(self.fc(x)) * self.gain


class NnxBlocks(nnx.Module):
    def __init__(self, rngs: nnx.Rngs, axis: int = 0, count: int = COUNT) -> None:
        make = nnx.split_rngs(splits=count)(nnx.vmap(NnxBlock, out_axes=axis))
        self.blocks = make(rngs)


class LinenBlock(linen.Module):
    @linen.compact
    def __call__(self, x: jax.Array, _: None) -> tuple[jax.Array, None]:
        gain = self.param("gain", linen.initializers.zeros, (3,))
        return jnp.tanh(linen.Dense(3, name="fc")(x)) * gain, None


class LinenBlocks(linen.Module):
    axis: int = 0

    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        scanned = linen.scan(LinenBlock, variable_axes={"params": self.axis}, split_rngs={"params": True}, length=COUNT)
        return scanned(name="blocks")(x, None)[0]


def state_of(module: torch.nn.Module) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in module.state_dict().items()}


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("names_only", [False, True])
def test_layers_that_nnx_vmap_made_are_stacked_in_natural_order(axis, names_only):
    theirs = Blocks()
    ours = nnx.eval_shape(lambda: NnxBlocks(nnx.Rngs(0), axis))
    mapping = between(theirs.state_dict() if names_only else theirs, ours, rename=STACKED)
    state = state_of(theirs)
    weights = mapping(state)
    assert set(weights) == {"blocks.fc.kernel", "blocks.fc.bias", "blocks.gain"}
    for place in range(COUNT):
        kernel = np.take(weights["blocks.fc.kernel"], place, axis)
        np.testing.assert_array_equal(kernel, state[f"blocks.{place}.fc.weight"].T)
        np.testing.assert_array_equal(np.take(weights["blocks.gain"], place, axis), state[f"blocks.{place}.gain"])
    back = mapping.inverse()(weights)
    assert all(back[name].tobytes() == state[name].tobytes() for name in state)
    assert list(weights["blocks.gain"].shape) == ([COUNT, 3] if axis == 0 else [3, COUNT])


def test_layers_of_a_linen_scan_do_the_same():
    theirs, x = Blocks().double(), np.random.default_rng(0).normal(size=(2, 3))
    mapping = between(theirs, LinenBlocks(), inputs=x, rename=STACKED)
    weights = mapping(state_of(theirs))
    params = {
        "blocks": {"fc": {n: weights[f"blocks.fc.{n}"] for n in ("kernel", "bias")}, "gain": weights["blocks.gain"]}
    }
    wanted = theirs(torch.from_numpy(x)).detach().numpy()
    with jax.enable_x64(True):
        np.testing.assert_allclose(LinenBlocks().apply({"params": params}, x), wanted, rtol=1e-12)
    mixed = {name: array[::-1] for name, array in weights.items()}  # the planted fault: the layers the other way round
    params = {"blocks": {"fc": {n: mixed[f"blocks.fc.{n}"] for n in ("kernel", "bias")}, "gain": mixed["blocks.gain"]}}
    assert np.abs(LinenBlocks().apply({"params": params}, x) - wanted).max() > 1e-3


def test_another_number_of_layers_is_refused():
    ours = nnx.eval_shape(lambda: NnxBlocks(nnx.Rngs(0)))
    with pytest.raises(
        WeightsMismatch, match=r"ambiguous: blocks\.gain could be any of blocks\.0\.gain, blocks\.1\.gain"
    ):
        between(Blocks(4), ours, rename=STACKED)


def test_layers_of_several_tensors_each_are_stacked_tensor_by_tensor():
    match = Found(("a", "b"), ("x", "y"), (Join(0, (2, 4)), Split(0, (3, 3))))
    layers = [np.random.default_rng(seed).normal(size=6) for seed in range(3)]
    names = tuple(f"{layer}.{name}" for layer in range(3) for name in "ab")
    arrays = {
        f"{n}.{k}": part for n, layer in enumerate(layers) for k, part in zip("ab", np.split(layer, [2]), strict=True)
    }
    mapping = Mapping((Entry(names, ("x", "y"), _stacked(match, 3, 0)),))
    found = mapping(arrays)
    np.testing.assert_array_equal(found["x"], np.stack([layer[:3] for layer in layers]))
    np.testing.assert_array_equal(found["y"], np.stack([layer[3:] for layer in layers]))
    assert all((mapping.inverse()(found)[name] == arrays[name]).all() for name in arrays)


class Language(torch.nn.Module):
    def __init__(self, tied: bool) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(7, 4)
        self.head = torch.nn.Linear(4, 7, bias=False)
        if tied:
            self.head.weight = self.embed.weight


class NnxLanguage(nnx.Module):
    def __init__(self, tied: bool, rngs: nnx.Rngs) -> None:
        self.embed = nnx.Embed(7, 4, rngs=rngs)
        if not tied:
            self.head = nnx.Linear(4, 7, use_bias=False, rngs=rngs)


class TestHeads:
    @pytest.mark.parametrize("names_only", [False, True])
    def test_tied_on_both_sides_is_one_place_for_both_names(self, names_only):
        theirs = Language(True)
        mapping = between(theirs.state_dict() if names_only else theirs, NnxLanguage(True, nnx.Rngs(0)))
        (entry,) = mapping.entries
        assert (entry.sources, entry.targets) == (("embed.weight", "head.weight"), ("embed.embedding",))
        assert entry.moves == (Tie(2),)
        state = state_of(theirs)
        assert (
            mapping({"head.weight": state["head.weight"]})["embed.embedding"].tolist() == state["embed.weight"].tolist()
        )
        with pytest.raises(WeightsMismatch, match="the tensors differ"):
            mapping({**state, "head.weight": state["head.weight"] + 1})

    def test_untied_on_both_sides_are_two(self):
        mapping = between(Language(False), NnxLanguage(False, nnx.Rngs(0)))
        assert {entry.sources + entry.targets for entry in mapping.entries} == {
            ("embed.weight", "embed.embedding"),
            ("head.weight", "head.kernel"),
        }

    def test_tied_in_torch_alone_fills_both_places(self):
        theirs = Language(True)
        mapping = between(theirs, NnxLanguage(False, nnx.Rngs(0)))
        (entry,) = mapping.entries
        assert [type(move) for move in entry.moves] == [Tie, Copy, EachBranch]
        state = state_of(theirs)
        for given in (state, {"head.weight": state["head.weight"]}):
            weights = mapping(given)
            np.testing.assert_array_equal(weights["embed.embedding"], state["embed.weight"])
            np.testing.assert_array_equal(weights["head.kernel"], state["embed.weight"].T)
        with pytest.raises(WeightsMismatch, match="the tensors differ"):  # trained apart: torch has one place for both
            mapping.inverse()({**weights, "head.kernel": weights["head.kernel"] + 1})

    def test_tied_in_flax_alone_is_refused(self):
        with pytest.raises(WeightsMismatch, match=r"unexpected: head\.weight"):
            between(Language(False), NnxLanguage(True, nnx.Rngs(0)))

    def test_torch_alone_ties_both_names_to_the_first(self):
        (entry,) = between(Language(True)).entries
        assert (entry.targets, entry.moves) == (("embed.embedding",), (Tie(2),))

    def test_what_is_not_tied_in_torch_is_not_taken_for_it(self):
        rename = {"^head": "embed"}
        ours = nnx.Dict(embed=nnx.Embed(7, 4, rngs=nnx.Rngs(0)))
        theirs = torch.nn.ModuleDict({"embed": torch.nn.Embedding(7, 4), "head": torch.nn.Embedding(7, 4)})
        with pytest.raises(
            WeightsMismatch, match=r"ambiguous: embed\.embedding could be any of embed.weight, head.weight"
        ):
            between(theirs, ours, rename=rename)
        # A checkpoint does not tell; its values do.
        mapping = between(state_of(theirs), ours, rename=rename)
        with pytest.raises(WeightsMismatch, match="the tensors differ"):
            mapping(state_of(theirs))
        theirs["head"].weight = theirs["embed"].weight
        assert between(theirs, ours, rename=rename).entries[0].moves == (Tie(2),)

    def test_a_stack_is_no_tie(self):
        ours = nnx.eval_shape(lambda: NnxBlocks(nnx.Rngs(0), count=2))
        assert all(entry.moves[-1] == Stack(0, 2) for entry in between(Blocks(2), ours, rename=STACKED).entries)
