"""Two models that were written apart: what does not belong together is refused, even where every shape fits."""

from __future__ import annotations

import re

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

from port.errors import NoPair, WeightsMismatch
from port.mapping import between
from port.moves import Permute, Reshape, Split
from port.pairs import LayerPair, ParamPair, registered

RNGS = nnx.Rngs(0)


def refusal(torch_layer: torch.nn.Module, flax_layer: nnx.Module, error: type = WeightsMismatch, **more) -> str:
    with pytest.raises(error) as caught:
        between(torch.nn.ModuleDict({"layer": torch_layer}), nnx.Dict(layer=flax_layer), **more)
    return str(caught.value)


@pytest.mark.parametrize("size", [4, 3])
@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (torch.nn.ConvTranspose2d, nnx.Conv),
        (torch.nn.Conv2d, lambda *a, **k: nnx.ConvTranspose(*a, transpose_kernel=True, **k)),
        (torch.nn.Conv2d, nnx.ConvTranspose),
    ],
)
def test_a_convolution_is_no_transposed_one(theirs, ours, size):
    message = refusal(theirs(4, size, 3), ours(4, size, (3, 3), rngs=RNGS))
    assert re.search(r"no pair: layer\.weight of torch\.nn\.\S*Conv\w+ against flax\.nnx\.\S*Conv\w* at layer", message)
    assert "missing" not in message
    assert "unexpected" not in message


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (torch.nn.Linear(3, 3), nnx.Embed(3, 3, rngs=RNGS)),
        (torch.nn.LayerNorm(3), nnx.BatchNorm(3, rngs=RNGS)),
        (torch.nn.BatchNorm1d(3), nnx.LayerNorm(3, rngs=RNGS)),
        (torch.nn.Conv1d(3, 3, 3), nnx.Conv(3, 3, (3, 3), rngs=RNGS)),
    ],
)
def test_layers_of_two_kinds_are_refused(theirs, ours):
    assert refusal(theirs, ours)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (torch.nn.ConvTranspose2d(4, 4, 3), lambda: nnx.ConvTranspose(4, 4, (3, 3), rngs=RNGS)),
        (
            torch.nn.ConvTranspose2d(4, 4, 3),
            lambda: nnx.ConvTranspose(4, 4, (3, 3), transpose_kernel=True, rngs=RNGS),
        ),
    ],
)
def test_of_two_pairs_the_flax_layer_tells_which(theirs, ours):
    mapping = between(torch.nn.ModuleDict({"layer": theirs}), nnx.Dict(layer=ours()))
    flipped = "flip" in str(mapping)
    assert flipped != ours().transpose_kernel


def test_everything_that_is_wrong_comes_in_one_message():
    theirs = torch.nn.ModuleDict(
        {
            "a": torch.nn.Linear(2, 3),
            "b": torch.nn.Linear(3, 3),
            "c": torch.nn.Linear(3, 4),
            "d": torch.nn.Conv2d(1, 1, 1),
        }
    )
    ours = nnx.Dict(
        a=nnx.Linear(2, 4, rngs=RNGS),
        bb=nnx.Linear(3, 3, use_bias=False, rngs=RNGS),
        c=nnx.Linear(3, 4, rngs=RNGS),
        d=nnx.Linear(1, 1, rngs=RNGS),
    )
    with pytest.raises(WeightsMismatch) as caught:
        between(theirs, ours)
    lines = [re.sub(r"torch\.nn\.\S+|flax\.nnx\.\S+", "…", line.strip()) for line in str(caught.value).splitlines()]
    assert lines == [
        "the two models do not match:",
        "missing: bb.weight (for bb.kernel) (nearest: b.weight)",
        *(
            f"no pair: d.{name} of … against … at d: no pair covers both; a mapping file can define the moves, "
            "or a pair of your own"
            for name in ("bias", "weight")
        ),
        "shape: a.bias of shape (3,) becomes (3,), but a.bias has shape (4,)",
        "shape: a.weight of shape (3, 2) becomes (2, 3), but a.kernel has shape (2, 4)",
        "unexpected: b.bias (nearest: bb.weight)",
        "unexpected: b.weight (nearest: bb.weight)",
    ]


def test_names_that_answer_twice_are_refused_and_listed():
    theirs = torch.nn.ModuleDict(
        {"layers_0": torch.nn.Linear(3, 3), "layers": torch.nn.ModuleList([torch.nn.Linear(3, 3)])}
    )
    ours = nnx.Dict({"0": nnx.Linear(3, 3, rngs=RNGS)})
    with pytest.raises(
        WeightsMismatch, match=r"ambiguous: 0\.kernel could be any of layers.0\.weight, layers.0\.weight"
    ):
        between(theirs, ours)


def test_one_torch_tensor_for_two_places_is_refused_and_both_are_listed():
    theirs = torch.nn.ModuleDict({"0": torch.nn.Linear(3, 3)})
    ours = nnx.Dict(layers_0=nnx.Linear(3, 3, rngs=RNGS), layers=nnx.List([nnx.Linear(3, 3, rngs=RNGS)]))
    with pytest.raises(WeightsMismatch, match=r"ambiguous: 0\.weight could go to layers.*kernel or to layers.*kernel"):
        between(theirs, ours)


def test_an_exact_name_goes_before_a_normal_form():
    theirs = torch.nn.ModuleDict(
        {"layers_0": torch.nn.Linear(3, 3), "layers": torch.nn.ModuleList([torch.nn.Linear(3, 3)])}
    )
    ours = nnx.Dict(layers_0=nnx.Linear(3, 3, rngs=RNGS), layers=nnx.List([nnx.Linear(3, 3, rngs=RNGS)]))
    homes = {entry.sources[0]: entry.targets[0] for entry in between(theirs, ours).entries}
    assert homes["layers_0.weight"] == "layers_0.kernel"
    assert homes["layers.0.weight"] == "layers.0.kernel"


class TestHeads:
    """A fused projection on torch's side, three with an axis of heads on Flax's: pairs of one's own."""

    class Torchs(torch.nn.Module):
        def __init__(self, heads: int, fused: bool = True) -> None:
            super().__init__()
            self.heads = heads
            self.qkv = torch.nn.Parameter(torch.randn(24, 8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    class Flaxs(nnx.Module):
        def __init__(self, heads: int, axis: bool = True) -> None:
            self.heads = heads
            shape = (8, heads, 8 // heads) if axis else (8, 8)
            self.q, self.k, self.v = (nnx.Param(jnp.zeros(shape)) for _ in range(3))

        def __call__(self, x):
            return x

    @pytest.fixture(autouse=True)
    def pair(self, monkeypatch):
        def params(heads: int | None) -> tuple[ParamPair, ...]:
            cut = () if heads is None else (Reshape((8, 8), (8, heads, 8 // heads)),)
            return (ParamPair("qkv", ("q", "k", "v"), (Split(0, (8, 8, 8)), Permute((1, 0)), *cut)),)

        def facts(module):
            return {"heads": module.heads}

        pair = LayerPair(self.Torchs, self.Flaxs, params, facts_of_torch=facts, facts_of_flax=facts)
        monkeypatch.setattr(registered, "_pairs", [pair])

    def test_the_fused_one_is_split(self):
        module = self.Torchs(2)
        mapping = between(module, self.Flaxs(2))
        qkv = module.qkv.detach().double().numpy()
        weights = mapping({"qkv": qkv})
        x = np.random.default_rng(0).normal(size=8)
        for place, name in enumerate("qkv"):
            np.testing.assert_allclose(
                np.einsum("i,ihd->hd", x, weights[name]).ravel(),
                qkv[8 * place : 8 * place + 8] @ x,
                rtol=1e-12,
            )
        assert mapping.inverse()(weights)["qkv"].tobytes() == qkv.tobytes()

    def test_another_number_of_heads_is_refused(self):
        with pytest.raises(
            WeightsMismatch, match=r"built differently: .*reshape\(8, 8\)→\(8, 2, 4\).*reshape\(8, 8\)→\(8, 4, 2\)"
        ):
            between(self.Torchs(2), self.Flaxs(4))

    def test_a_checkpoint_does_not_say_how_many(self):
        state = self.Torchs(2).state_dict()
        assert "(8, 4, 2)" in str(between(state, self.Flaxs(4)))


def test_how_features_are_cut_into_axes_is_the_flax_sides_to_say():
    theirs, ours = torch.nn.Linear(6, 8), nnx.LinearGeneral((2, 3), (4, 2), axis=(-2, -1), rngs=RNGS)
    mapping = between(theirs, ours)
    weight = theirs.weight.detach().double().numpy()
    x = np.random.default_rng(0).normal(size=(2, 3))
    found = np.einsum("ab,abcd->cd", x, mapping({"weight": weight, "bias": np.zeros(8)})["kernel"])
    np.testing.assert_allclose(found.ravel(), weight @ x.ravel(), rtol=1e-12)


def test_what_flax_has_no_home_for_is_kept_on_the_side():
    mapping = between(torch.nn.BatchNorm1d(3), nnx.BatchNorm(3, rngs=RNGS))
    (kept,) = (entry for entry in mapping.entries if entry.collection == "torch_only")
    assert (kept.sources, kept.targets, kept.optional) == (("num_batches_tracked",),) * 2 + (True,)


def test_a_bare_parameter_of_ones_own_goes_to_one_of_the_same_name_and_shape():
    class Theirs(torch.nn.Module):
        def __init__(self, *shape: int) -> None:
            super().__init__()
            self.gain = torch.nn.Parameter(torch.randn(*shape))

    class Ours(nnx.Module):
        def __init__(self) -> None:
            self.gain = nnx.Param(jnp.zeros((2, 3)))

    assert str(between(Theirs(2, 3), Ours())) == "gain → gain"
    with pytest.raises(WeightsMismatch, match=r"gain of shape \(3, 2\) becomes \(3, 2\), but gain has shape \(2, 3\)"):
        between(Theirs(3, 2), Ours())


def test_a_bare_parameter_is_no_layers():
    class Theirs(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(3, 3))
            self.bias = torch.nn.Parameter(torch.randn(3))

    assert "no pair: layer.weight" in refusal(Theirs(), nnx.Linear(3, 3, rngs=RNGS))


def test_a_flax_layer_without_a_pair_is_named():
    class Own(nnx.Linear):
        def __call__(self, x):
            return 2 * super().__call__(x)

    message = refusal(torch.nn.Linear(3, 3), Own(3, 3, rngs=RNGS), NoPair)
    assert re.search(r"no pair: layer\.kernel belongs to .*Own at layer, which no pair covers", message)


def test_a_module_that_both_use_twice_is_one():
    shared = torch.nn.Linear(3, 3)
    theirs = torch.nn.ModuleDict({"b": shared, "a": shared})
    twin = nnx.Linear(3, 3, rngs=RNGS)
    mapping = between(theirs, nnx.Dict(a=twin, b=twin))
    assert {entry.targets for entry in mapping.entries} == {("a.kernel",), ("a.bias",)}
    assert all(entry.sources[0].startswith("b.") and entry.is_tied for entry in mapping.entries)
    state = {name: tensor.numpy() for name, tensor in theirs.state_dict().items()}
    assert set(mapping.inverse()(mapping(state))) == set(state)
