"""`between`: every kind of guide on either side gives the mapping that carries the weights right."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import linen, nnx

from models.frozen import FlaxBands, FlaxPlain, TorchBands, TorchOpen
from port.errors import NoPair, UsageError, WeightsMismatch
from port.mapping import FROZEN, TORCH_ONLY, Entry, Mapping, Rules, between, guide_of_flax, guide_of_torch, save_mapping
from port.mapping.nnx_guide import dotted, weights_filter

WIDTH = 5


class TorchNet(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Sequential(torch.nn.Conv2d(3, WIDTH, 3, padding=1), torch.nn.ReLU())
        self.blocks = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.heads = torch.nn.ModuleDict({"a": torch.nn.Linear(WIDTH, 2), "b": torch.nn.Linear(WIDTH, 3)})
        self.scale = torch.nn.Parameter(torch.randn(WIDTH))
        self.register_buffer("mask", torch.tensor([True, False, True, True, False]))
        self.register_buffer("shift", torch.arange(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x).mean((2, 3)) * self.scale * self.mask + self.shift
        for block in self.blocks:
            x = block(x)
        return torch.cat([self.heads["a"](x), self.heads["b"](x)], 1)


class NnxNet(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        def linear(out: int) -> nnx.Linear:
            return nnx.Linear(WIDTH, out, rngs=rngs, param_dtype=jnp.float64)

        self.stem = nnx.Sequential(nnx.Conv(3, WIDTH, (3, 3), rngs=rngs, param_dtype=jnp.float64), nnx.relu)
        self.blocks = nnx.List([linear(WIDTH) for _ in range(2)])
        self.heads = nnx.Dict(a=linear(2), b=linear(3))
        self.scale = nnx.Param(jnp.ones(WIDTH, jnp.float64))
        self.mask = nnx.Variable(jnp.ones(WIDTH, bool))
        self.shift = nnx.Variable(jnp.zeros(WIDTH, jnp.int64))

    def __call__(self, x: jax.Array) -> jax.Array:
        x = self.stem(x).mean((1, 2)) * self.scale * self.mask + self.shift
        for block in self.blocks:
            x = block(x)
        return jnp.concatenate([self.heads.a(x), self.heads.b(x)], 1)


class LinenNet(linen.Module):
    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = linen.relu(linen.Conv(WIDTH, (3, 3), name="stem_0", param_dtype=jnp.float64)(x)).mean((1, 2))
        buffers = {"mask": jnp.ones(WIDTH, bool), "shift": jnp.zeros(WIDTH, jnp.int64)}
        mask, shift = (self.variable("buffers", name, lambda v=v: v).value for name, v in buffers.items())
        x = x * self.param("scale", lambda key: jnp.ones(WIDTH, jnp.float64)) * mask + shift
        for place in range(2):
            x = linen.Dense(WIDTH, name=f"blocks_{place}", param_dtype=jnp.float64)(x)
        heads = [linen.Dense(n, name=f"heads_{name}", param_dtype=jnp.float64)(x) for name, n in (("a", 2), ("b", 3))]
        return jnp.concatenate(heads, 1)


HEADS = {r"heads\.": "heads_"}


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def torch_net() -> TorchNet:
    torch.manual_seed(0)
    return TorchNet().double()


def state_of(module: torch.nn.Module) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in module.state_dict().items()}


def filled(module: nnx.Module, weights: dict[str, np.ndarray]) -> nnx.Module:
    own = list(nnx.to_flat_state(nnx.state(module, weights_filter())))
    assert {dotted(path) for path, _ in own} == set(weights)
    nnx.update(module, nnx.from_flat_state([(path, jnp.asarray(weights[dotted(path)])) for path, _ in own]))
    return module


def nested(mapping: Mapping, weights: dict[str, np.ndarray]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for entry in mapping.entries:
        for path in entry.targets:
            *above, name = (entry.collection, *path.split("."))
            place = tree
            for part in above:
                place = place.setdefault(part, {})
            place[name] = weights[path]
    return tree


def outputs(weights: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Of torch's net and of nnx's with these weights, for one image."""
    image = np.random.default_rng(0).normal(size=(2, 3, 4, 6))
    ours = filled(NnxNet(nnx.Rngs(0)), weights)(jnp.asarray(image.transpose(0, 2, 3, 1)))
    return torch_net()(torch.from_numpy(image)).detach().numpy(), np.asarray(ours)


TORCH: dict[str, Callable[[], Any]] = {
    "module": torch_net,
    "on the meta device": lambda: torch_net().to("meta"),
    "state dict": lambda: torch_net().state_dict(),
    "state dict on the meta device": lambda: torch_net().to("meta").state_dict(),
    "numpy arrays": lambda: state_of(torch_net()),
    "guide": lambda: guide_of_torch(torch_net()),
    "data parallel": lambda: torch.nn.DataParallel(torch_net()),
}
NNX: dict[str, Callable[[], Any]] = {
    "module": lambda: NnxNet(nnx.Rngs(0)),
    "abstract": lambda: nnx.eval_shape(lambda: NnxNet(nnx.Rngs(0))),
    "guide": lambda: guide_of_flax(NnxNet(nnx.Rngs(0))),
    "its state": lambda: nnx.state(NnxNet(nnx.Rngs(0))),
}


@pytest.mark.sweep
def test_the_weights_make_the_same_function_and_come_back_bit_for_bit():
    mapping = between(torch_net(), NnxNet(nnx.Rngs(0)))
    state = state_of(torch_net())
    weights = mapping(state)
    wanted, found = outputs(weights)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    back = mapping.inverse()(weights)
    assert list(back) == list(state)
    assert all(
        back[name].tobytes() == state[name].tobytes() and back[name].dtype == state[name].dtype for name in state
    )
    assert weights["mask"].dtype == bool
    assert weights["shift"].dtype == np.int64


@pytest.mark.parametrize("theirs", TORCH)
@pytest.mark.parametrize("ours", NNX)
def test_every_guide_of_torch_and_of_nnx_gives_the_same_mapping(theirs, ours):
    if ours == "its state" and theirs in ("state dict", "state dict on the meta device", "numpy arrays"):
        with pytest.raises(UsageError, match="neither side's classes are known"):
            between(TORCH[theirs](), NNX[ours]())
        return
    found, wanted = between(TORCH[theirs](), NNX[ours]()), between(torch_net(), NnxNet(nnx.Rngs(0)))
    if ours == "its state":  # a bare tree does not tell the kinds of variables
        assert [(e.sources, e.targets, e.moves) for e in found.entries] == [
            (e.sources, e.targets, e.moves) for e in wanted.entries
        ]
    else:
        assert found == wanted


def test_a_square_weight_that_is_not_transposed_is_seen():
    """The planted fault of the above."""
    mapping = between(torch_net(), NnxNet(nnx.Rngs(0)))
    entries = tuple(
        Entry(entry.sources, entry.targets) if entry.sources == ("blocks.1.weight",) else entry
        for entry in mapping.entries
    )
    wanted, found = outputs(Mapping(entries)(state_of(torch_net())))
    assert np.abs(found - wanted).max() > 1e-3


@pytest.mark.parametrize("theirs", ["module", "on the meta device", "state dict", "numpy arrays"])
@pytest.mark.parametrize("whole", [True, False])
def test_a_linen_module_is_traced_with_an_example_input(theirs, whole):
    image = np.random.default_rng(0).normal(size=(2, 3, 4, 6))
    ours = jnp.asarray(image.transpose(0, 2, 3, 1))
    example = ours if whole else (jax.ShapeDtypeStruct(ours.shape, ours.dtype),)
    mapping = between(TORCH[theirs](), LinenNet(), inputs=example, rename=HEADS)
    variables = nested(mapping, mapping(state_of(torch_net())))
    assert set(variables) == {"params", "buffers"}
    wanted = torch_net()(torch.from_numpy(image)).detach().numpy()
    np.testing.assert_allclose(LinenNet().apply(variables, ours), wanted, rtol=1e-12)


def test_a_bare_linen_tree_is_read_by_the_torch_module():
    image = jnp.zeros((1, 4, 4, 3))
    tree = LinenNet().init(jax.random.key(0), image)
    assert between(torch_net(), tree, rename=HEADS) == between(torch_net(), LinenNet(), inputs=image, rename=HEADS)
    with pytest.raises(WeightsMismatch, match="missing: shift"):
        between(
            {k: v for k, v in torch_net().state_dict().items() if k != "shift"}, LinenNet(), inputs=image, rename=HEADS
        )


def test_a_linen_module_needs_an_example_input():
    with pytest.raises(UsageError, match="pass an example input"):
        between(torch_net(), LinenNet())


def test_torch_alone_gives_the_twins_under_torchs_names():
    mapping = between(torch_net().to("meta"))
    assert [str(entry) for entry in mapping.entries][-2:] == [
        "heads.b.weight → heads.b.kernel  [permute(1, 0)]",
        "heads.b.bias → heads.b.bias",
    ]
    kinds = {entry.targets[0]: entry.collection for entry in mapping.entries}
    assert (kinds["mask"], kinds["scale"]) == ("buffers", "params")
    assert {entry.sources: entry.shapes for entry in mapping.entries}[("stem.0.weight",)] == ((5, 3, 3, 3),)


def test_nnx_alone_gives_torchs_names():
    mapping = between(None, nnx.eval_shape(lambda: NnxNet(nnx.Rngs(0))))
    both = between(torch_net(), NnxNet(nnx.Rngs(0)))
    assert {(e.sources, e.targets, e.moves, e.shapes) for e in mapping.entries} == {
        (e.sources, e.targets, e.moves, e.shapes) for e in both.entries
    }


def test_what_is_written_is_the_whole_mapping_and_is_seen_to_fit(tmp_path):
    mapping = between(torch_net(), NnxNet(nnx.Rngs(0)))
    save_mapping(mapping, tmp_path / "m.toml")
    assert between(torch_net(), NnxNet(nnx.Rngs(0)), rename=tmp_path / "m.toml") == mapping
    assert between(rename=str(tmp_path / "m.toml")) == mapping
    assert between(torch_net(), rename=mapping) == mapping
    with pytest.raises(WeightsMismatch, match=r"torch: missing: heads\.a\.weight"):
        between(torch.nn.Linear(2, 3), rename=mapping)
    with pytest.raises(WeightsMismatch, match=r"Flax: missing: heads\.a\.kernel"):
        between(torch_net(), nnx.Linear(2, 3, rngs=nnx.Rngs(0)), rename=mapping)


def test_what_has_no_twin_keeps_its_value_where_the_rules_say_so():
    model, twin = torch.nn.Linear(2, 3), nnx.Linear(2, 3, rngs=nnx.Rngs(0))
    twin.mask = nnx.Param(jnp.zeros(4))
    with pytest.raises(WeightsMismatch, match="mask"):
        between(model, twin)
    mapping = between(model, twin, rename=Rules(keep=("mask",)))
    assert mapping == between(model, twin, rename=mapping)
    assert mapping.kept == ("mask",) and {entry.targets for entry in mapping.entries} == {("kernel",), ("bias",)}
    with pytest.raises(WeightsMismatch, match="Flax: unexpected: mask"):
        between(model, twin, rename=Mapping(mapping.entries))
    with pytest.raises(WeightsMismatch, match=r"Flax has no masks, which the mapping keeps \(nearest: mask\)"):
        between(model, twin, rename=Rules(keep=("masks",)))


def test_a_mapping_without_shapes_is_held_against_those_of_the_models():
    model, twin = torch.nn.Linear(2, 3), nnx.Linear(2, 3, rngs=nnx.Rngs(0))
    untransposed = Mapping((Entry(("weight",), ("kernel",)), Entry(("bias",), ("bias",))))
    with pytest.raises(WeightsMismatch, match=re.escape("Flax: kernel has shape (2, 3), expected (3, 2)")):
        between(model, twin, rename=untransposed)
    right = Mapping((between(model).entries[0], Entry(("bias",), ("bias",))))
    assert between(model, twin, rename=right).entries[1].shapes == ((3,),)


class TestABareTreeBesideATorchModule:
    def test_exactly_what_the_twins_have_is_read_as_theirs(self):
        """A transposed convolution has two readings by its class; this tree is ours."""
        for channels in (5, 3):
            model = torch.nn.Sequential(torch.nn.ConvTranspose2d(3, channels, 2), torch.nn.BatchNorm2d(channels))
            mapping = between(model)
            tree = nested(mapping, mapping(state_of(model)))
            assert between(model, tree) == mapping

    def test_what_another_wrote_and_has_two_readings_is_refused_and_they_are_listed(self):
        model = torch.nn.ModuleDict({"up": torch.nn.ConvTranspose2d(4, 4, 2)})
        tree = {"params": {"up": {"kernel": np.zeros((2, 2, 4, 4)), "bias": np.zeros(4)}, "other": np.zeros(2)}}
        with pytest.raises(WeightsMismatch, match=r"(?s)ambiguous: up: .*permute\(2, 3, 1, 0\).* or .*flip\(0, 1\)"):
            between(model, tree)

    def test_what_was_kept_for_the_way_back_is_no_variable(self):
        model = torch.nn.Linear(2, 3)
        tree = nested(between(model), between(model)(state_of(model))) | {TORCH_ONLY: {"n": np.zeros(())}}
        assert between(model, tree) == between(model)

    def test_a_path_in_two_collections_is_refused(self):
        with pytest.raises(UsageError, match=r"a\.b is both in 'params' and in 'stats'"):
            between(torch.nn.Linear(2, 3), {"params": {"a": {"b": np.zeros(1)}}, "stats": {"a": {"b": np.zeros(1)}}})


@pytest.mark.parametrize("wrong", [3, "resnet", [1]])
def test_what_is_no_model_is_refused(wrong):
    with pytest.raises(UsageError, match=r"expected a torch\.nn\.Module or a state dict, got"):
        between(wrong)
    with pytest.raises(UsageError, match="expected an nnx module, a Linen module or a tree of variables, got"):
        between(None, wrong)


def test_names_alone_do_not_tell_the_layout():
    for sides in ((), ({"a": np.zeros(1)},), (None, {"a": np.zeros(1)})):
        with pytest.raises(UsageError, match="names alone do not determine"):
            between(*sides)


class TestRenaming:
    def test_of_torch_alone_names_the_twins(self):
        mapping = between(torch_net(), rename={r"^blocks\.": "layers.", "^scale$": "gain"})
        assert {"layers.0.kernel", "gain"} <= {path for entry in mapping.entries for path in entry.targets}

    def test_of_a_layers_own_tensors_is_refused(self):
        with pytest.raises(UsageError, match=r"stem\.0\.weight would become stem\.0\.w, but the twin of stem\.0"):
            between(torch_net(), rename={"weight$": "w"})
        assert between(torch.nn.Linear(2, 3), rename={"^weight$": "kernel"}).entries[0].targets == ("kernel",)

    def test_many_to_one_is_refused_where_no_stack_is_known(self):
        with pytest.raises(WeightsMismatch, match=r"twice: target blocks\.kernel"):
            between(torch_net(), rename={r"blocks\.\d": "blocks"})

    @pytest.mark.parametrize("rename", [{"(": "a"}, {"a": r"\9"}])
    def test_what_is_no_regular_expression_is_refused(self, rename):
        with pytest.raises(UsageError, match="rename: "):
            between(torch_net(), NnxNet(nnx.Rngs(0)), rename=rename)

    def test_of_flax_alone_is_refused(self):
        with pytest.raises(UsageError, match="a renaming applies to torch's keys"):
            between(None, NnxNet(nnx.Rngs(0)), rename={"a": "b"})


def test_a_layer_without_a_pair_is_named_on_either_side():
    class Own(torch.nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(x)

    model = torch.nn.ModuleDict({"fc": Own(2, 3)})
    twin = nnx.Dict(fc=nnx.Linear(2, 3, rngs=nnx.Rngs(0)))
    with pytest.raises(NoPair, match=r"fc\.weight, fc\.bias: in .*Own"):
        between(model)
    with pytest.raises(NoPair, match=r"no pair: fc\.weight of .*Own against flax\.nnx.*Linear at fc"):
        between(model, twin)


def test_the_collection_of_a_parameter_is_the_kind_that_flax_holds_it_as() -> None:
    held, plain = FlaxBands(rngs=nnx.Rngs(0)), FlaxPlain(rngs=nnx.Rngs(0))

    def frozen(mapping: Mapping) -> set[str]:
        return {source for entry in mapping.entries if entry.collection == FROZEN for source in entry.sources}

    for theirs in (TorchBands(), TorchOpen(), TorchBands().state_dict()):
        assert frozen(between(theirs, held)) == {"scale", "bank.weight"}
        assert frozen(between(theirs, plain)) == set()
    assert frozen(between(None, held)) == {"scale", "bank.weight"} and frozen(between(TorchBands())) == set()
    # One that was saved for the other kind.
    assert frozen(between(TorchBands(), plain, rename=between(TorchBands(), held))) == set()
    assert frozen(between(TorchBands(), held, rename=between(TorchBands(), plain))) == {"scale", "bank.weight"}
