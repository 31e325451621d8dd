"""A converted file goes back to torch by itself, bit for bit; what it says and what is given are held against each
other; and a file that is not what was converted is refused."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flax import nnx
from torch import nn

import port
import port.nn
from port.errors import BrokenWeights, UsageError, WeightsMismatch
from port.mapping import Mapping, save_mapping
from port.weights.checkpoint import Tensor, open_checkpoint, write_checkpoint
from port.weights.conversion import convert
from port.weights.fingerprints import FIRST_HASH, fingerprint
from port.weights.record import KEY, record_of


class Attention(nn.Module):
    """A mask that no state dict holds, and a weight under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.query, self.key = nn.Embedding(11, 8), nn.Linear(8, 8), nn.Linear(8, 8, bias=False)
        self.register_buffer("mask", torch.full((5, 5), -1e9).triu(1), persistent=False)
        self.norm, self.out = nn.LayerNorm(8), nn.Linear(8, 11, bias=False)
        self.out.weight = self.embedding.weight


class Relative(nn.Module):
    """Whole numbers among the buffers, one that is kept and one that is not, and running statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.fc = nn.Conv2d(3, 8, (3, 2)), nn.BatchNorm2d(8), nn.Linear(24, 4)
        self.table = nn.Parameter(torch.rand(11, 8))
        self.register_buffer("index", torch.arange(6)[:, None] - torch.arange(6)[None] + 5)
        self.register_buffer("scale", torch.rand(8, 1, 1), persistent=False)


class Upsampling(nn.Module):
    """Square transposed convolutions, whose layout the names and shapes alone leave open."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.act = nn.Conv2d(3, 6, 2, bias=False), nn.PReLU(6)
        self.up, self.again = (nn.ConvTranspose2d(6, 6, 2, stride=2, bias=False) for _ in range(2))
        self.norm = nn.BatchNorm2d(6)


MODELS = (Attention, Relative, Upsampling)
FOLD = {"fc": (8, 3, 1)}


def state_of(module: nn.Module, seed: int = 0) -> dict[str, torch.Tensor]:
    """Random values for all that the module holds."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in module.state_dict(keep_vars=True).values():
            if tensor.is_floating_point():
                tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.25)
            else:
                tensor.add_(3)
    return module.state_dict()


def there(folder: Path, model: type[nn.Module], suffix: str = ".safetensors", **options: Any) -> Path:
    """A converted file of the model."""
    torch.save(state_of(model()), folder / "w.pth")
    fold = FOLD if model is Relative else None
    path = folder / f"flax{suffix}"
    convert(folder / "w.pth", path, torch=model(), fold=fold, **options)
    return path


def assert_same(given: Path | dict[str, torch.Tensor], model: type[nn.Module]) -> None:
    given = torch.load(given, weights_only=True) if isinstance(given, Path) else given
    state = state_of(model())
    assert set(given) == set(state)
    for name, tensor in state.items():
        assert given[name].dtype == tensor.dtype and torch.equal(given[name], tensor), name


def rewritten(path: Path, change: Callable[[dict[str, np.ndarray], dict[str, str]], None]) -> None:
    """The same file with other arrays, or saying something else."""
    with open_checkpoint(path) as checkpoint:
        arrays = {name: np.array(checkpoint.read(name)) for name in checkpoint.tensors}
        metadata = dict(checkpoint.metadata)
    change(arrays, metadata)
    tensors = [Tensor(name, array.shape, array.dtype, lambda a=array: a) for name, array in arrays.items()]  # type: ignore[misc]
    write_checkpoint(path, tensors, format=path.suffix[1:], metadata=metadata, overwrite=True)


# %% There and back


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "suffix", [".safetensors", ".msgpack", ".npz", pytest.param(".orbax", marks=pytest.mark.sweep)]
)
def test_a_file_goes_back_by_itself(tmp_path: Path, model: type[nn.Module], suffix: str) -> None:
    path = there(tmp_path, model, suffix)
    done = convert(path, tmp_path / "back.pth", reverse=True)
    assert (done.missing, done.left_out, done.remarks) == ({}, {}, [])
    assert_same(tmp_path / "back.pth", model)
    assert_same(port.to_torch(path), model)
    fresh = model()
    port.load(fresh, path)
    assert_same(fresh.state_dict(), model)


@pytest.mark.parametrize("model", MODELS)
def test_the_models_that_it_fits_may_be_given(tmp_path: Path, model: type[nn.Module]) -> None:
    """The fold that only the file knows is undone all the same."""
    path = there(tmp_path, model, ".npz")
    convert(path, tmp_path / "back.pth", torch=model(), reverse=True)
    assert_same(tmp_path / "back.pth", model)
    assert_same(port.to_torch(path, like=model()), model)


def test_shards_an_orbax_folder_and_torchs_own_names(tmp_path: Path) -> None:
    path = there(tmp_path, Relative, "", max_shard_size=400)
    assert len(list(path.glob("*.safetensors"))) > 1
    convert(path, tmp_path / "back.npz", reverse=True)
    with np.load(tmp_path / "back.npz") as back:
        assert_same({name: torch.from_numpy(array) for name, array in back.items()}, Relative)
    path = there(tmp_path, Attention, ".orbax")
    assert_same(port.to_torch(path), Attention)


def test_prefixes_stay_off_and_that_is_said(tmp_path: Path) -> None:
    torch.save({f"module.{name}": tensor for name, tensor in state_of(Relative()).items()}, tmp_path / "w.pth")
    convert(tmp_path / "w.pth", tmp_path / "flax.npz", torch=Relative(), fold=FOLD)
    done = convert(tmp_path / "flax.npz", tmp_path / "back.pth", reverse=True)
    assert_same(tmp_path / "back.pth", Relative)
    (remark,) = done.remarks
    assert "without a wrapper's prefix: table, which was module.table" in remark


def test_what_was_left_out_and_cast_is_said(tmp_path: Path) -> None:
    torch.save({"state_dict": state_of(Upsampling()), "epoch": 3}, tmp_path / "w.pth")
    convert(tmp_path / "w.pth", tmp_path / "flax.safetensors", torch=Upsampling(), dtype="bfloat16")
    done = convert(tmp_path / "flax.safetensors", tmp_path / "back.pth", reverse=True)
    cast, lost = done.remarks
    assert "cast 8 tensors from float32: they come back as cast" in cast
    assert lost == ("not restored, the conversion left it out: epoch (beside the state dict, which is 'state_dict')")
    back = torch.load(tmp_path / "back.pth", weights_only=True)
    for name, tensor in state_of(Upsampling()).items():
        assert torch.equal(back[name], tensor.bfloat16() if tensor.is_floating_point() else tensor)


def test_a_sum_comes_back_as_one_and_that_is_said(tmp_path: Path) -> None:
    """Two biases in torch, one in Flax: the same function, not the same bits."""

    class Net(nnx.Module):
        def __init__(self) -> None:
            self.cell = nnx.OptimizedLSTMCell(3, 4, rngs=nnx.Rngs(0))

    cell = nn.ModuleDict({"cell": nn.LSTMCell(3, 4)})
    torch.save(state_of(cell), tmp_path / "w.pth")
    convert(tmp_path / "w.pth", tmp_path / "flax.npz", torch=cell, flax=Net())
    done = convert(tmp_path / "flax.npz", tmp_path / "back.pth", reverse=True)
    assert any("keeps the sum of cell.bias_ih, cell.bias_hh" in remark for remark in done.remarks)
    back, state = torch.load(tmp_path / "back.pth", weights_only=True), cell.state_dict()
    assert torch.equal(back["cell.weight_hh"], state["cell.weight_hh"])
    assert torch.equal(back["cell.bias_ih"], state["cell.bias_ih"] + state["cell.bias_hh"])
    assert not back["cell.bias_hh"].any()


def test_a_part_of_a_model(tmp_path: Path) -> None:
    state = state_of(Relative())
    part = {name: tensor for name, tensor in state.items() if not name.startswith(("fc", "table"))}
    torch.save(part, tmp_path / "w.pth")
    with pytest.raises(WeightsMismatch, match=r"(?s)missing: fc\.weight.*has a part of the model, 8 .*--partial"):
        convert(tmp_path / "w.pth", tmp_path / "flax.npz", torch=Relative())
    done = convert(tmp_path / "w.pth", tmp_path / "flax.npz", torch=Relative(), partial=True)
    assert set(done.missing) == {"fc.weight", "fc.bias", "table"}
    back = convert(tmp_path / "flax.npz", tmp_path / "back.pth", reverse=True)
    assert set(back.missing) == {"fc.weight", "fc.bias", "table"}
    loaded = torch.load(tmp_path / "back.pth", weights_only=True)
    assert set(loaded) == set(part) and all(torch.equal(loaded[name], part[name]) for name in part)
    with pytest.raises(WeightsMismatch, match=r"a part of a model: table, fc\.weight, fc\.bias not in it"):
        port.to_torch(tmp_path / "flax.npz", like=Relative())
    torch.save({**part, "adapter": torch.ones(2)}, tmp_path / "w.pth")
    with pytest.raises(WeightsMismatch, match="unexpected: adapter"):
        convert(tmp_path / "w.pth", tmp_path / "more.npz", torch=Relative(), partial=True)


# %% Buffers that no state dict holds, where the file does not say it


class FlaxRelative(nnx.Module):
    """`Relative` as a translation writes it."""

    def __init__(self, *, rngs: nnx.Rngs) -> None:
        self.conv, self.fc = nnx.Conv(3, 8, (3, 2), rngs=rngs), nnx.Linear(24, 4, rngs=rngs)
        self.norm = port.nn.BatchNorm(8, rngs=rngs)
        self.table = nnx.Param(np.zeros((11, 8), np.float32))
        self.index = port.nn.Buffer(np.zeros((6, 6), np.int32))
        self.scale = port.nn.Buffer(np.ones((8,), np.float32))


def test_a_module_with_buffers_of_its_own(tmp_path: Path) -> None:
    """By the mapping, by the torch module, or by both."""
    mapping = port.mapping.between(Relative(), None, fold=FOLD)
    flax = FlaxRelative(rngs=nnx.Rngs(0))
    port.load(flax, state_of(Relative()), rename=mapping)
    save_mapping(mapping, tmp_path / "m.toml")
    for options in ({"rename": mapping}, {"rename": tmp_path / "m.toml"}, {"like": Relative(), "fold": FOLD}):
        given = port.to_torch(flax, **options)
        for name, tensor in state_of(Relative()).items():
            assert name not in given or torch.equal(given[name].to(tensor.dtype), tensor)
        assert len(given) == len(state_of(Relative()))


def test_a_parameter_is_no_buffer_that_may_be_missing() -> None:
    """A Flax parameter under the name of torch's hidden buffer would stay as it was drawn, without a word."""

    class Wrong(FlaxRelative):
        def __init__(self, *, rngs: nnx.Rngs) -> None:
            super().__init__(rngs=rngs)
            self.scale = nnx.Param(np.ones((8,), np.float32))

    with pytest.raises(WeightsMismatch, match="missing: scale"):
        port.mapping.between(Relative(), Wrong(rngs=nnx.Rngs(0)), fold=FOLD)


# %% What is given against what the file says


def test_another_model_is_told(tmp_path: Path) -> None:
    path = there(tmp_path, Attention)
    for wrong in (
        lambda: convert(path, tmp_path / "x.pth", torch=Relative(), reverse=True),
        lambda: port.load(Relative(), path),
        lambda: port.to_torch(path, like=Upsampling()),
    ):
        with pytest.raises(UsageError, match=r"(?s)the model that is passed is another.*Leave the model out"):
            wrong()
    assert not (tmp_path / "x.pth").exists()


def test_a_mapping_that_says_otherwise_is_followed_and_that_is_said(tmp_path: Path) -> None:
    path = there(tmp_path, Relative)
    mapping = port.mapping.between(Relative(), None)  # without the fold
    done = convert(path, tmp_path / "back.pth", rename=mapping, reverse=True)
    (remark,) = done.remarks
    assert "contradicts the file's record" in remark and "1 of its entries, as fc.weight → fc.kernel" in remark
    back, state = torch.load(tmp_path / "back.pth", weights_only=True), state_of(Relative())
    assert [name for name in state if not torch.equal(back[name], state[name])] == ["fc.weight"]
    done = convert(path, None, rename=port.mapping.between(Relative(), None, fold=FOLD), reverse=True)
    assert done.remarks == []


# %% Planted faults


def flipped(arrays: dict[str, np.ndarray], metadata: dict[str, str]) -> None:
    name = next(name for name in arrays if "up.kernel" in name or "query.kernel" in name or "conv.kernel" in name)
    arrays[name].reshape(-1).view(np.uint8)[5] ^= 1


def swapped(arrays: dict[str, np.ndarray], metadata: dict[str, str]) -> None:
    """Two tensors of one shape change places."""
    shapes: dict[Any, str] = {}
    for name, array in arrays.items():
        other = shapes.setdefault((array.shape, array.dtype), name)
        if other != name and array.size > 1:
            arrays[name], arrays[other] = arrays[other], arrays[name]
            return
    raise AssertionError("no two of one shape")


def stale(arrays: dict[str, np.ndarray], metadata: dict[str, str]) -> None:
    """The mapping is another's: two tensors of one shape go to each other's places."""
    record = record_of("w", metadata)
    assert record is not None
    entries = list(record.mapping.entries)
    same: dict[Any, int] = {}
    for place, entry in enumerate(entries):
        other = same.setdefault((entry.shapes, entry.moves, entry.collection), place)
        if other != place and entry.shapes and entry.shapes[0]:
            a, b = entries[other], entry
            entries[other], entries[place] = replace(a, targets=b.targets), replace(b, targets=a.targets)
            metadata |= replace(record, mapping=Mapping(tuple(entries))).metadata()
            return
    raise AssertionError("no two that go alike")


def trained(arrays: dict[str, np.ndarray], metadata: dict[str, str]) -> None:
    for name in arrays:
        if arrays[name].dtype == np.float32:
            arrays[name] = arrays[name] * np.float32(0.5)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("fault", [flipped, swapped, stale, trained])
def test_a_file_that_is_not_what_was_converted_is_refused(
    tmp_path: Path, model: type[nn.Module], fault: Callable[[dict[str, np.ndarray], dict[str, str]], None]
) -> None:
    path = there(tmp_path, model)
    rewritten(path, lambda arrays, metadata: None)
    assert_same(port.to_torch(path), model)
    rewritten(path, fault)
    fresh = model()
    before = {name: tensor.clone() for name, tensor in fresh.state_dict().items()}
    for read in (
        lambda: convert(path, tmp_path / "back.pth", reverse=True),
        lambda: port.to_torch(path),
        lambda: port.to_torch(path, like=model()),
        lambda: port.load(fresh, path),
    ):
        with pytest.raises(WeightsMismatch, match=r"flax\.safetensors: .* does not come back as it was converted"):
            read()
    assert not (tmp_path / "back.pth").exists()
    assert all(torch.equal(tensor, before[name]) for name, tensor in fresh.state_dict().items())


def with_the_first_hash(arrays: dict[str, np.ndarray], metadata: dict[str, str]) -> None:
    """As files were written that do not say which hash they have."""
    told = json.loads(metadata[KEY])
    del told["hash"]
    told["fingerprints"] = {
        name: fingerprint(tensor.numpy(), FIRST_HASH) for name, tensor in state_of(Upsampling()).items()
    }
    metadata[KEY] = json.dumps(told)


def test_a_file_of_the_first_hash_is_looked_at_by_it(tmp_path: Path) -> None:
    path = there(tmp_path, Upsampling)
    rewritten(path, with_the_first_hash)
    assert_same(port.to_torch(path), Upsampling)
    rewritten(path, flipped)
    with pytest.raises(WeightsMismatch, match="does not come back as it was converted"):
        port.to_torch(path)


def test_weights_that_were_trained_on_are_read_by_a_mapping_and_that_is_said(tmp_path: Path) -> None:
    path = there(tmp_path, Upsampling)
    rewritten(path, trained)
    mapping = port.mapping.between(Upsampling(), None)
    done = convert(path, tmp_path / "back.pth", rename=mapping, reverse=True)
    (remark,) = done.remarks
    assert "came back different from when converted (trained, or broken)" in remark
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        given = port.to_torch(path, rename=mapping)
    assert len(caught) == 1 and "different from when converted" in str(caught[0].message)
    assert torch.equal(given["up.weight"], state_of(Upsampling())["up.weight"] * 0.5)


@pytest.mark.parametrize("told", ["{", "[]", json.dumps({"mapping": 3}), json.dumps({"mapping": [{"source": 1}]})])
def test_a_record_that_cannot_be_read_is_told(tmp_path: Path, told: str) -> None:
    path = there(tmp_path, Upsampling)
    rewritten(path, lambda arrays, metadata: metadata.update({KEY: told}))
    with pytest.raises(BrokenWeights, match=f"flax.safetensors: the record of its conversion \\({KEY}"):
        port.to_torch(path)


def test_without_a_record_a_model_is_asked_for(tmp_path: Path) -> None:
    path = there(tmp_path, Upsampling)
    rewritten(path, lambda arrays, metadata: metadata.pop(KEY) and None)
    with pytest.raises(UsageError, match="their conversion is not recorded: pass a model"):
        convert(path, tmp_path / "back.pth", reverse=True)
    path = there(tmp_path, Upsampling, ".npz")
    with pytest.raises(UsageError, match=r"w\.pth: this is a torch state dict already"):
        convert(tmp_path / "w.pth", tmp_path / "back.pth", reverse=True)
    with pytest.raises(UsageError, match="records how it was converted: leave the renaming or the fold out"):
        convert(path, tmp_path / "back.pth", fold={"fc": (2, 3)}, reverse=True)
