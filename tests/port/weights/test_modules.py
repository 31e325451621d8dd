"""`port.load` and `port.save` of whole models: nested, strict, without surprises."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flax.linen
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import torch
from flax import nnx

import port
from port.errors import NoPair, UsageError, WeightsMismatch
from port.nn import BatchNorm
from port.weights import arrays_of
from port.weights.sources import opened
from port.weights.torch import fill

# %% A model of one's own, in both frameworks: nested modules, a list of them, bare parameters, a buffer, dropout


class TorchBlock(torch.nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = torch.nn.Conv1d(channels, channels, 3, padding=1)
        self.norm = torch.nn.BatchNorm1d(channels)
        self.gain = torch.nn.Parameter(torch.ones(channels, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.gain * torch.tanh(self.norm(self.conv(x)))


class TorchModel(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList([TorchBlock(4), TorchBlock(4)])
        self.dropout = torch.nn.Dropout(0.5)
        self.offsets = torch.nn.ParameterDict({"first": torch.zeros(4, 1), "second": torch.zeros(4, 1)})
        self.mixing = torch.nn.Parameter(torch.zeros(4, 4))
        self.register_buffer("shift", torch.zeros(4, 1))
        self.head = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (N, 4, L)
        x = self.blocks[0](x - self.shift) + self.offsets["first"]
        x = self.dropout(self.blocks[1](x)) + self.offsets["second"]
        return self.head(x.mean(2) @ self.mixing)


class Block(nnx.Module):
    def __init__(self, channels: int, **given: Any) -> None:
        self.conv = nnx.Conv(channels, channels, 3, padding=1, **given)
        self.norm = BatchNorm(channels, **given)
        self.gain = nnx.Param(jnp.ones((channels, 1), given["param_dtype"]))

    def __call__(self, x: jax.Array) -> jax.Array:
        return x + self.gain[:, 0] * jnp.tanh(self.norm(self.conv(x)))


class Model(nnx.Module):
    def __init__(self, param_dtype: Any = jnp.float32) -> None:
        given: dict[str, Any] = {"param_dtype": param_dtype, "rngs": nnx.Rngs(0)}
        self.blocks = nnx.List([Block(4, **given), Block(4, **given)])
        self.dropout = nnx.Dropout(0.5, rngs=nnx.Rngs(0))
        zeros = jnp.zeros((4, 1), param_dtype)
        self.offsets = nnx.data({"first": nnx.Param(zeros), "second": nnx.Param(zeros)})
        self.mixing = nnx.Param(jnp.zeros((4, 4), param_dtype))
        self.shift = zeros
        self.head = nnx.Linear(4, 4, **given)

    def __call__(self, x: jax.Array) -> jax.Array:  # (N, L, 4)
        x = self.blocks[0](x - self.shift[:, 0]) + self.offsets["first"][:, 0]
        x = self.dropout(self.blocks[1](x)) + self.offsets["second"][:, 0]
        return self.head(x.mean(1) @ self.mixing)


def torch_model(dtype: torch.dtype = torch.float32) -> TorchModel:
    """Nothing zero, nothing symmetric."""
    made = TorchModel().to(dtype)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, tensor in made.state_dict().items():
            if tensor.is_floating_point():
                tensor.normal_(generator=generator)
            else:
                tensor.fill_(5)
            if name.endswith("running_var"):
                tensor.abs_().add_(0.5)
    return made


X = np.random.default_rng(0).normal(size=(4, 4, 6))  # N, C, L


@pytest.mark.parametrize("swapped", [None, ("mixing", 0), ("head.weight", 0), ("blocks.1.gain", "blocks.0.gain")])
def test_a_nested_model_computes_the_same(swapped: tuple[str, Any] | None) -> None:
    """And does not where a square matrix is transposed, or a tensor comes from its neighbour."""
    with jax.enable_x64(True):
        theirs, ours = torch_model(torch.float64).eval(), Model(jnp.float64)
        arrays = arrays_of(theirs)
        if swapped is not None:
            key, source = swapped
            arrays[key] = arrays[source] if source else arrays[key].T
        port.load(ours, arrays)
        ours.eval()
        expected = theirs(torch.from_numpy(X)).detach().numpy()
        y = nnx.jit(lambda model, x: model(x))(ours, jnp.asarray(X.transpose(0, 2, 1)))
        difference = np.abs(np.asarray(y) - expected).max()
    assert difference < 1e-12 if swapped is None else difference > 1e-3


def test_a_nested_models_keys_are_torchs_and_streams_are_no_weights() -> None:
    ours = Model()
    keys = set(torch_model().state_dict())
    assert set(arrays_of(ours)) == keys
    assert "offsets.first" in keys and "shift" in keys and "blocks.1.norm.num_batches_tracked" in keys

    def streams() -> list[Any]:
        return [leaf.tolist() for leaf in jax.tree.leaves(jax.tree.map(key_data, nnx.state(ours, nnx.RngState)))]

    ours.dropout(jnp.ones(3))  # its stream has moved
    before = streams()
    port.load(ours, arrays_of(torch_model()))
    assert before
    assert streams() == before


def key_data(leaf: jax.Array) -> jax.Array:
    return jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf


def test_from_torch_to_jax_and_back_through_files(tmp_path: Path) -> None:
    theirs, ours, again = torch_model(), Model(), TorchModel()
    port.save(theirs, tmp_path / "torch")
    port.load(ours, tmp_path / "torch")
    port.save(ours, tmp_path / "jax")
    port.load(again, str(tmp_path / "jax"))
    strict = {key: torch.from_numpy(np.array(array)) for key, array in arrays_of(ours).items()}
    TorchModel().load_state_dict(strict, strict=True)
    without_files = TorchModel()
    port.load(without_files, arrays_of(ours))
    for key, tensor in theirs.state_dict().items():
        for module in (again, without_files):
            assert torch.equal(module.state_dict()[key], tensor), key
            assert module.state_dict()[key].dtype == tensor.dtype


def test_variables_that_others_hold_are_filled_in_place() -> None:
    ours, arrays = Model(), arrays_of(torch_model())
    kernel, view = ours.head.kernel, nnx.view(ours, deterministic=True, use_running_average=True)
    port.load(ours, arrays)
    np.testing.assert_array_equal(kernel[...], arrays["head.weight"].T)
    np.testing.assert_array_equal(view.head.kernel[...], arrays["head.weight"].T)


@pytest.mark.parametrize("make", [lambda: nnx.Linear(64, 1, rngs=nnx.Rngs(0)), lambda: torch.nn.Linear(64, 1)])
def test_a_loaded_module_shares_no_memory_with_its_arrays(make: Callable[[], Any]) -> None:
    memory = np.empty(64 * 4 + 64, np.uint8)  # aligned as jax would take it over without a copy
    aligned = memory[-memory.ctypes.data % 64 :][: 64 * 4].view(np.float32).reshape(1, 64)
    aligned[...] = 1
    module = make()
    port.load(module, {"weight": aligned, "bias": np.ones(1, np.float32)})
    aligned[...] = 7
    assert (arrays_of(module)["weight"] == 1).all()


def test_what_was_taken_stays_as_it_was() -> None:
    for module in (nnx.Linear(3, 2, rngs=nnx.Rngs(0)), torch.nn.Linear(3, 2)):
        taken = arrays_of(module)
        kept = {key: array.copy() for key, array in taken.items()}
        port.load(module, {key: array + 1 for key, array in taken.items()})
        assert all((array == kept[key]).all() for key, array in taken.items())


# %% Dtypes: the module keeps its own


@pytest.mark.parametrize("own", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("given", ["float16", "bfloat16", "float32", "float64"])
def test_values_are_converted_to_the_modules_dtype(own: str, given: str, tmp_path: Path) -> None:
    values = np.array([[1 / 3, -1.5, 1e-3]])
    stored = values.astype(ml_dtypes.bfloat16 if given == "bfloat16" else given)
    expected = stored.astype(ml_dtypes.bfloat16 if own == "bfloat16" else own)
    with jax.enable_x64(True):
        modules = [
            nnx.Linear(3, 1, use_bias=False, param_dtype=jnp.dtype(own), rngs=nnx.Rngs(0)),
            torch.nn.Linear(3, 1, bias=False, dtype=getattr(torch, own)),
        ]
        for module in modules:
            port.load(module, {"weight": stored})
            port.save(module, tmp_path / "w")
            port.load(module, tmp_path / "w")
            back = arrays_of(module)["weight"]
            assert back.dtype == own
            np.testing.assert_array_equal(back.astype(np.float64), expected.astype(np.float64))


def test_without_64_bits_a_float64_checkpoint_fills_a_float32_model() -> None:
    """W27: quietly, and to the nearest float32."""
    theirs, ours = torch_model(torch.float64), Model()
    port.load(ours, arrays_of(theirs))
    assert ours.head.kernel.dtype == jnp.float32
    np.testing.assert_array_equal(ours.head.kernel[...], theirs.head.weight.detach().float().numpy().T)


def test_the_count_of_batches_stays_an_integer() -> None:
    ours = Model()
    port.load(ours, arrays_of(torch_model()))
    count = ours.blocks[1].norm.num_batches_tracked
    assert count.dtype == jnp.int32
    assert count[...] == 5
    assert arrays_of(ours)["blocks.1.norm.num_batches_tracked"].shape == ()


# %% Strictness: everything wrong in one message, and nothing filled


def complaints(module: Any, arrays: dict[str, np.ndarray]) -> list[str]:
    before = arrays_of(module)
    with pytest.raises(WeightsMismatch) as caught:
        port.load(module, arrays)
    assert all((array == before[key]).all() for key, array in arrays_of(module).items())
    return [line.strip() for line in str(caught.value).splitlines()[1:]]


def wrong_arrays() -> dict[str, np.ndarray]:
    arrays = arrays_of(torch_model())
    del arrays["mixing"], arrays["blocks.0.gain"]
    arrays["module.mixing"] = np.ones((4, 4))
    arrays["extra"] = np.ones(1)
    arrays["head.bias"] = np.ones(3, np.float32)
    arrays["blocks.1.conv.weight"] = np.ones((4, 3, 4), np.float32)  # a permutation of the right one
    arrays["blocks.0.conv.weight"] = np.ones(4, np.float32)  # of another rank
    arrays["shift"] = np.float32(1)  # would broadcast
    return arrays


def test_everything_wrong_for_an_nnx_model_is_in_one_message() -> None:
    assert complaints(Model(), wrong_arrays()) == [
        "missing: blocks.0.gain",
        "missing: mixing (nearest: module.mixing)",
        "shape: blocks.0.conv.weight → blocks.0.conv.kernel  [permute(2, 1, 0)]: permute(2, 1, 0) needs an array of "
        "3 axes, got shape (4,)",
        "shape: blocks.1.conv.weight of shape (4, 3, 4) becomes (4, 3, 4), "
        "but blocks.1.conv.kernel has shape (3, 4, 4)",
        "shape: head.bias of shape (3,) becomes (3,), but head.bias has shape (4,)",
        "shape: shift of shape () becomes (), but shift has shape (4, 1)",
        "unexpected: extra",
        "unexpected: module.mixing (nearest: mixing)",
    ]


def test_everything_wrong_for_a_torch_model_is_in_one_message() -> None:
    assert complaints(TorchModel(), wrong_arrays()) == [
        "missing: blocks.0.gain",
        "missing: mixing (nearest: module.mixing)",
        "unexpected: extra",
        "unexpected: module.mixing (nearest: mixing)",
        "blocks.0.conv.weight has shape (4,), expected (4, 4, 3)",
        "blocks.1.conv.weight has shape (4, 3, 4), expected (4, 4, 3)",
        "head.bias has shape (3,), expected (4,)",
        "shift has shape (), expected (4, 1)",
    ]


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda rngs: nnx.Linear(3, 2, use_bias=False, rngs=rngs), (3, 2)),  # flax's own layout
        (lambda rngs: nnx.Conv(3, 2, (1, 1), use_bias=False, rngs=rngs), (2, 3)),  # a linear layer's weight
        (lambda rngs: nnx.Conv(3, 2, (1, 1), use_bias=False, rngs=rngs), (1, 1, 3, 2)),
        (lambda rngs: nnx.Conv(3, 2, (1,), use_bias=False, rngs=rngs), (2, 3, 1, 1)),
        (lambda rngs: nnx.Linear(3, 2, use_bias=False, rngs=rngs), (2, 3, 1)),
    ],
)
def test_a_weight_in_another_layout_is_never_made_to_fit(
    make: Callable[[nnx.Rngs], nnx.Module], shape: tuple[int, ...]
) -> None:
    assert complaints(make(nnx.Rngs(0)), {"weight": np.ones(shape)})


# %% Layers without a pair


class SameCall(nnx.Linear):
    """A linear layer under another name."""


class OtherCall(nnx.Linear):
    def __call__(self, x: jax.Array) -> jax.Array:
        return 2 * super().__call__(x)


class InheritsOtherCall(OtherCall):
    pass


class OneMoreParameter(nnx.Linear):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.gain = nnx.Param(jnp.ones(2))


class Around(nnx.Module):
    def __init__(self, layer: nnx.Module) -> None:
        self.inner = nnx.List([layer])


def test_a_subclass_that_is_called_alike_has_the_pair() -> None:
    ours, weight = SameCall(3, 2, rngs=nnx.Rngs(0)), np.arange(6.0).reshape(2, 3)
    port.load(ours, {"weight": weight, "bias": np.ones(2)})
    np.testing.assert_array_equal(ours.kernel[...], weight.T)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda rngs: nnx.Einsum("ab,bc->ac", (3, 2), (2,), rngs=rngs), "Einsum"),
        (lambda rngs: nnx.Conv(3, 2, (1, 1, 1, 1), rngs=rngs), "Conv"),
        (lambda rngs: OtherCall(3, 2, rngs=rngs), "OtherCall"),
        (lambda rngs: InheritsOtherCall(3, 2, rngs=rngs), "InheritsOtherCall"),
    ],
)
def test_a_library_layer_without_a_pair_is_refused(make: Callable[[nnx.Rngs], nnx.Module], says: str) -> None:
    """Naming where it is and what it is; the same keys and shapes would otherwise load in the wrong layout."""
    model = Around(make(nnx.Rngs(0)))
    flat = nnx.to_flat_state(nnx.state(model))
    same_keys = {".".join(map(str, path)): np.asarray(leaf[...]) for path, leaf in flat}
    for call in (lambda: port.load(model, same_keys), lambda: arrays_of(model)):
        with pytest.raises(NoPair, match=rf"inner\.0\.bias.*( belongs to|: in) .*{says}"):
            call()


def test_a_parameter_that_the_pair_does_not_know_is_refused() -> None:
    with pytest.raises(NoPair, match=r"gain: in .*OneMoreParameter"):
        arrays_of(OneMoreParameter(3, 2, rngs=nnx.Rngs(0)))


@pytest.mark.parametrize("module", [object(), {"weight": 1}, torch.nn.Linear, np.ones(3)])
def test_what_is_no_module_is_refused(module: Any) -> None:
    with pytest.raises(UsageError, match=r"expected a torch\.nn\.Module or a flax\.nnx\.Module"):
        port.load(module, {})


# %% What is imported


def imported(code: str, *arguments: str) -> set[str]:
    """The packages among these that a fresh interpreter has imported after some code."""
    code += "\nprint(*({'torch', 'jax', 'flax', 'matplotlib'} & set(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-c", "import sys\n" + code, *arguments], capture_output=True, text=True, check=True
    )
    return set(run.stdout.split())


def test_importing_port_imports_no_framework() -> None:
    assert (
        imported("import port, port.weights, port.pairs, port.mapping; port.load, port.share_initial_weights") == set()
    )


@pytest.mark.sweep
def test_jax_is_loaded_and_saved_without_torch(tmp_path: Path) -> None:
    port.save(torch.nn.Linear(3, 2), tmp_path / "w")
    code = """
import port
from flax import nnx
model = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
port.load(model, port.initial_weights(sys.argv[1]))
port.save(model, sys.argv[1] + "-again")
"""
    assert imported(code, str(tmp_path / "w")) == {"jax", "flax"}
    assert (tmp_path / "w-again").read_bytes() == (tmp_path / "w").read_bytes()


@pytest.mark.sweep
def test_torch_is_loaded_and_saved_without_jax(tmp_path: Path) -> None:
    code = """
import port, torch
model = torch.nn.Linear(3, 2)
port.share_initial_weights(model, sys.argv[1])
port.load(model, sys.argv[1])
"""
    assert imported(code, str(tmp_path / "w")) == {"torch"}


def test_a_state_dict_is_taken_as_it_is():
    theirs = torch.nn.Linear(3, 5)
    ours = nnx.Linear(3, 5, rngs=nnx.Rngs(0))
    port.load(ours, theirs.state_dict())
    assert np.array_equal(ours.kernel[...], theirs.weight.detach().numpy().T)


def test_a_torch_models_state_dict_is_saved_as_the_model_is(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 5), torch.nn.BatchNorm2d(3)).double()
    port.save(model, tmp_path / "model.safetensors")
    port.save(model.state_dict(), tmp_path / "state.safetensors")
    assert (tmp_path / "model.safetensors").read_bytes() == (tmp_path / "state.safetensors").read_bytes()
    with pytest.raises(UsageError, match=r"expected a torch.nn.Module or a flax.nnx.Module, got dict"):
        port.save({**model.state_dict(), "epoch": 3}, tmp_path / "checkpoint.safetensors")


def test_a_linen_module_has_no_weights_to_load() -> None:
    with pytest.raises(UsageError, match=r"Dense is a Linen module.* port\.to_flax\(file, target=module, inputs=…\)"):
        port.load(flax.linen.Dense(3), {"weight": torch.ones(3, 2)})
    with pytest.raises(UsageError, match=r"got the class TorchModel \(give an instance"):
        port.load(TorchModel, {})


def test_a_sparse_buffer_is_dense_elsewhere_and_sparse_again_in_torch() -> None:
    def made() -> torch.nn.Module:
        module = torch.nn.Linear(3, 2)
        module.register_buffer("heads", (torch.rand(4, 5) > 0.5).float().to_sparse())
        return module

    module, other = made(), made()
    arrays = arrays_of(module)
    np.testing.assert_array_equal(arrays["heads"], module.heads.to_dense().numpy())
    with opened(module) as source:
        fill(other, source)
    assert other.heads.layout is torch.sparse_coo
    assert torch.equal(other.heads.to_dense(), module.heads.to_dense()) and torch.equal(other.weight, module.weight)


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(5, 3)
        self.head = torch.nn.Linear(3, 5, bias=False)
        self.head.weight = self.table.weight


def test_of_tied_tensors_a_file_needs_one() -> None:
    """Files of the hub have no more."""
    model, array = Tied(), np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    port.load(model, {"table.weight": array})
    np.testing.assert_array_equal(model.head.weight.detach().numpy(), array)
    assert model.head.weight is model.table.weight
    model.head.weight = torch.nn.Parameter(torch.randn(5, 3))
    with pytest.raises(WeightsMismatch, match=r"missing: head\.weight"):
        port.load(model, {"table.weight": array})
