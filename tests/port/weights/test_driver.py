"""One way through `convert`, `load`, `to_flax` and `to_torch`: the same names, the same arrays, each read once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flax import nnx

import port
from port.errors import UsageError, WeightsMismatch
from port.weights import driver
from port.weights.checkpoint import open_checkpoint
from port.weights.conversion import convert
from port.weights.driver import find
from port.weights.options import Options
from port.weights.sources import Source
from port.weights.tensors import TensorInfo


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 5, (2, 3))
        self.norm = torch.nn.BatchNorm2d(5)
        self.head = torch.nn.Linear(5, 7)
        with torch.no_grad():
            for tensor in self.state_dict().values():
                tensor.copy_(torch.randn(tensor.shape) * 10)


class FlaxNet(nnx.Module):
    def __init__(self) -> None:
        rngs = nnx.Rngs(0)
        self.conv = nnx.Conv(3, 5, (2, 3), rngs=rngs, padding="VALID")
        self.norm = nnx.BatchNorm(5, rngs=rngs)
        self.head = nnx.Linear(5, 7, rngs=rngs)


class Compiled(torch.nn.Module):
    """Holds a module as torch.compile does, without its imports of many seconds."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self._orig_mod = module


def inside(model: torch.nn.Module) -> torch.nn.Module:
    """A wrapped part of a wrapped model."""
    model.head = Compiled(model.head)
    return torch.nn.DataParallel(model)


WRAPPERS = [torch.nn.DataParallel, Compiled, lambda model: Compiled(torch.nn.DataParallel(model)), inside]
WRAPPED = pytest.mark.parametrize(
    "wrap",
    [*WRAPPERS, pytest.param(torch.compile, marks=pytest.mark.sweep)],
    ids=["module.", "_orig_mod.", "both", "inside", "torch.compile"],
)


def wrapped_state(net: Net, wrap: Callable[[Any], Any]) -> dict[str, torch.Tensor]:
    """The state dict that a training script saves of the wrapped model; the model is left as it is."""
    plain = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    copy = Net()
    copy.load_state_dict(plain)
    state = wrap(copy).state_dict()
    assert not set(state) & set(plain) and len(state) == len(plain)
    return dict(state)


def flat(variables: Any, path: str = "") -> dict[str, np.ndarray]:
    if not isinstance(variables, dict):
        return {path: np.asarray(variables)}
    return {
        name: leaf
        for key, branch in variables.items()
        for name, leaf in flat(branch, f"{path}.{key}" if path else str(key)).items()
    }


def assert_same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert set(found) == set(expected)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array, err_msg=name)


@WRAPPED
def test_a_wrapped_models_state_dict_goes_through_to_flax(wrap: Callable[[Any], Any]) -> None:
    net = Net()
    expected = flat(port.to_flax(net, target=FlaxNet()))
    assert len(expected) == len(net.state_dict())
    assert_same(flat(port.to_flax(wrapped_state(net, wrap), target=FlaxNet())), expected)


@WRAPPED
def test_and_through_load(wrap: Callable[[Any], Any]) -> None:
    net, flax, other = Net(), FlaxNet(), Net()
    state = wrapped_state(net, wrap)
    port.load(flax, state)
    variables = port.to_flax(net, target=flax)
    np.testing.assert_array_equal(flax.conv.kernel[...], variables["params"]["conv"]["kernel"])
    np.testing.assert_array_equal(flax.head.kernel[...], variables["params"]["head"]["kernel"])
    np.testing.assert_array_equal(flax.norm.mean[...], variables["batch_stats"]["norm"]["mean"])
    port.load(other, state)
    for name, tensor in net.state_dict().items():
        assert torch.equal(other.state_dict()[name], tensor), name


@WRAPPED
@pytest.mark.parametrize("side", ["torch", "flax"])
def test_and_through_convert(wrap: Callable[[Any], Any], side: str, tmp_path: Path) -> None:
    net = Net()
    torch.save(wrapped_state(net, wrap), tmp_path / "w.pt")
    convert(tmp_path / "w.pt", tmp_path / "w.safetensors", **{side: Net() if side == "torch" else FlaxNet()})
    with open_checkpoint(tmp_path / "w.safetensors") as checkpoint:
        found = {name: checkpoint.read(name) for name in checkpoint.tensors}
    assert_same(found, flat(port.to_flax(net, target=None if side == "torch" else FlaxNet())))


def test_names_of_another_model_are_still_refused() -> None:
    """What is taken off is a wrapper's, and nothing else."""
    state = {f"other.{name}": tensor for name, tensor in Net().state_dict().items()}
    with pytest.raises(WeightsMismatch, match=r"other\.conv\.weight"):
        port.to_flax(state, target=FlaxNet())


@pytest.mark.parametrize("way", ["convert", "to_flax", "load into nnx", "load into torch"])
def test_each_tensor_is_read_once(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net()
    torch.save(net.state_dict(), tmp_path / "w.pt")
    reads: Counter[str] = Counter()
    read = Source.__getitem__
    monkeypatch.setattr(Source, "__getitem__", lambda self, name: (reads.update([name]), read(self, name))[1])
    match way:
        case "convert":
            convert(tmp_path / "w.pt", tmp_path / "w.safetensors", torch=net)
        case "to_flax":
            port.to_flax(tmp_path / "w.pt", target=FlaxNet())
        case "load into nnx":
            port.load(FlaxNet(), tmp_path / "w.pt")
        case _:
            port.load(net, tmp_path / "w.pt")
    taken = set(net.state_dict()) - ({"norm.num_batches_tracked"} if way == "load into nnx" else set())
    assert reads == Counter(taken)


@pytest.mark.parametrize("reverse", [False, True])
def test_nothing_is_read_before_it_is_asked_for(reverse: bool) -> None:
    reads: list[str] = []

    def read(name: str) -> np.ndarray:
        reads.append(name)
        return np.arange(35.0).reshape(5, 7)

    name, shape = ("params.head.kernel", (5, 7)) if reverse else ("module.head.weight", (5, 7))
    tensors = Source({name: TensorInfo(shape, np.dtype(np.float64))}, read, is_flax=reverse)
    layer = torch.nn.ModuleDict({"head": torch.nn.Linear(5 if reverse else 7, 7 if reverse else 5, bias=False)})
    found = find(tensors, Options(torch=layer, reverse=reverse))
    assert (found.mapping.entries[0].targets, reads) == (("head.weight" if reverse else "head.kernel",), [])
    ((_, (array,)),) = found.carried()
    assert len(reads) == 1
    np.testing.assert_array_equal(array, np.arange(35.0).reshape(5, 7).T)


def test_options_are_read_once_and_held_as_they_were_read(tmp_path: Path) -> None:
    """A mapping file may be gone by the time that it is used."""
    state = {name.replace("head", "top"): tensor for name, tensor in Net().state_dict().items()}
    (tmp_path / "names.toml").write_text('[[rename]]\nfrom = "^top"\nto = "head"\n')
    options = Options(flax=FlaxNet(), rename=tmp_path / "names.toml")
    (tmp_path / "names.toml").unlink()
    torch.save(state, tmp_path / "w.pt")
    done = convert(tmp_path / "w.pt", None, options)
    assert len(done.moved) == len(state)
    with pytest.raises(UsageError, match="not both: partial"):
        convert(tmp_path / "w.pt", None, options, partial=True)
    with pytest.raises(UsageError, match="bfloat17"):
        Options(dtype="bfloat17")
    with pytest.raises(UsageError, match="fold is a linear layer's path"):
        Options(fold={"head": "7"})  # type: ignore[dict-item]


def test_there_is_one_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every face goes through `find`."""
    asked: list[bool] = []
    real = driver.find

    def noting(tensors: Source, options: Options) -> driver.Transfer:
        asked.append(options.reverse)
        return real(tensors, options)

    for module in ("conversion", "modules", "variables"):
        monkeypatch.setattr(f"port.weights.{module}.find", noting)
    net, flax = Net(), FlaxNet()
    torch.save(net.state_dict(), tmp_path / "w.pt")
    convert(tmp_path / "w.pt", tmp_path / "w.safetensors", torch=net)
    port.load(flax, net)
    variables = port.to_flax(net)
    port.to_torch(variables, like=net)
    port.load(net, tmp_path / "w.safetensors")
    assert asked == [False, False, False, True, True]
