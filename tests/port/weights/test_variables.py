"""`port.to_flax` and `port.to_torch`: there and back bit for bit, for modules, state dicts, trees and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import torch
from flax import linen, nnx
from safetensors.numpy import save_file
from torch import nn

import port
from models.frozen import FlaxBands, FlaxPlain, TorchBands
from port.cli import main
from port.errors import NoPair, UsageError, WeightsMismatch
from port.nn import frozen


class Net(nn.Module):
    """Every kind of entry: layers, running statistics, bare parameters, buffers of other dtypes, a tied weight."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, (2, 3))
        self.norm = nn.BatchNorm2d(4)
        self.up = nn.ConvTranspose2d(4, 4, 3)
        self.embed = nn.Embedding(7, 5)
        self.head = nn.Linear(5, 7, bias=False)
        self.head.weight = self.embed.weight
        self.scale = nn.Parameter(torch.empty(3, 2))
        self.register_buffer("seen", torch.tensor([True, False, True]))
        self.register_buffer("count", torch.tensor(5, dtype=torch.int16))
        for tensor in (*self.parameters(), self.norm.running_mean):
            nn.init.normal_(tensor)
        self.norm.running_var.uniform_(0.5, 2)
        self.norm.num_batches_tracked += 9


class FlaxNet(nnx.Module):
    """Its twin with flax's own BatchNorm, which has no place for num_batches_tracked."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.conv = nnx.Conv(3, 4, (2, 3), padding="VALID", rngs=rngs)
        self.norm = nnx.BatchNorm(4, rngs=rngs)
        self.up = nnx.ConvTranspose(4, 4, (3, 3), transpose_kernel=True, rngs=rngs)
        self.embed = nnx.Embed(7, 5, rngs=rngs)
        self.scale = nnx.Param(np.zeros((3, 2), np.float32))
        self.seen = nnx.Variable(np.zeros(3, bool))
        self.count = nnx.Variable(np.zeros((), np.int16))


def equal(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    """Bit for bit, NaN included."""
    return set(a) == set(b) and all(
        a[key].dtype == b[key].dtype and a[key].numpy().tobytes() == b[key].numpy().tobytes() for key in a
    )


@pytest.fixture
def net() -> Net:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Net()


def test_a_module_goes_there_and_back_bit_for_bit(net: Net) -> None:
    net.double()
    net.scale.data[0, 0] = torch.nan
    variables = port.to_flax(net)
    assert set(variables) == {"params", "batch_stats", "buffers"}
    assert variables["params"]["conv"]["kernel"].shape == (2, 3, 3, 4)
    assert variables["params"]["embed"]["embedding"].dtype == np.float64
    assert "head" not in variables["params"]  # tied: one parameter
    back = port.to_torch(variables, like=net)
    assert equal(back, net.state_dict())
    Net().load_state_dict(back, strict=True)


def test_a_fault_in_one_bit_is_seen(net: Net) -> None:
    variables = port.to_flax(net)
    kernel = variables["params"]["conv"]["kernel"] = variables["params"]["conv"]["kernel"].copy()
    kernel[0, 1, 2, 3] = np.nextafter(kernel[0, 1, 2, 3], np.float32(9))
    assert not equal(port.to_torch(variables, like=net), net.state_dict())


def test_to_flaxs_own_batch_norm_what_has_no_place_is_kept_beside(net: Net) -> None:
    flax = FlaxNet(nnx.Rngs(0))
    variables = port.to_flax(net, target=flax)
    assert variables["torch_only"]["norm"]["num_batches_tracked"] == 9
    assert equal(port.to_torch(variables, like=net, model=flax), net.state_dict())
    port.load(flax, net)
    back = port.to_torch(flax, like=net)  # from the module: the count is the torch module's own
    assert equal(back, net.state_dict())


@pytest.mark.parametrize("is_on_mesh", [False, True])
def test_variables_for_ports_batch_norm_load_into_flaxs_own(net: Net, is_on_mesh: bool) -> None:
    """A file of ``port convert --torch`` has the count, which flax's own has no place for: the pair says so."""
    where = {"mesh": jax.make_mesh((1,), ("data",))} if is_on_mesh else {}
    variables, loaded, direct = port.to_flax(net), FlaxNet(nnx.Rngs(0)), FlaxNet(nnx.Rngs(1))
    assert variables["batch_stats"]["norm"]["num_batches_tracked"] == 9
    port.load(loaded, variables, **where)
    port.load(direct, net)
    jax.tree.map(np.testing.assert_array_equal, *(nnx.to_pure_dict(nnx.state(each)) for each in (loaded, direct)))


@pytest.mark.parametrize("path", ["norm.num_batches", "conv.num_batches_tracked", "num_batches_tracked"])
def test_a_count_of_no_layer_that_counts_is_refused(net: Net, path: str) -> None:
    """The planted faults: no pair says of these that they are torch's alone."""
    variables = port.to_flax(net)
    layer, _, name = path.rpartition(".")
    held = variables["batch_stats"].setdefault(layer, {}) if layer else variables["batch_stats"]
    held[name] = np.array(9)
    with pytest.raises(WeightsMismatch, match=rf"unexpected: {path}"):
        port.load(FlaxNet(nnx.Rngs(0)), variables)


def test_a_state_dict_needs_a_model_to_go_by(net: Net) -> None:
    flax = FlaxNet(nnx.Rngs(0))
    np.testing.assert_array_equal(
        port.to_flax(net.state_dict(), target=flax)["params"]["up"]["kernel"],
        net.up.weight.detach().numpy().transpose(2, 3, 1, 0),
    )
    with pytest.raises(UsageError, match="names alone"):
        port.to_flax(net.state_dict())
    with pytest.raises(UsageError, match="like="):
        port.to_torch(port.to_flax(net))


def test_a_linen_module_with_an_example_input(net: Net) -> None:
    class Small(linen.Module):
        @linen.compact
        def __call__(self, x: Any) -> Any:
            x = linen.Conv(4, (2, 3), padding="VALID", name="conv")(x)
            return linen.BatchNorm(use_running_average=True, name="norm")(x)

    torch_side = nn.ModuleDict({"conv": net.conv, "norm": net.norm})
    x = np.ones((1, 5, 6, 3), np.float32)
    variables = port.to_flax(torch_side, target=Small(), inputs=x)
    given = Small().apply({name: variables[name] for name in ("params", "batch_stats")}, x)
    with torch.no_grad():
        wanted = torch_side["norm"].eval()(torch_side["conv"](torch.from_numpy(x).permute(0, 3, 1, 2)))
    np.testing.assert_allclose(np.asarray(given), wanted.permute(0, 2, 3, 1).numpy(), atol=1e-5)
    assert equal(port.to_torch(variables, like=torch_side), torch_side.state_dict())


def test_W23_a_tied_weight_is_one_parameter_and_untied_ones_are_refused_on_the_way_back(net: Net) -> None:
    class Untied(nnx.Module):
        def __init__(self, rngs: nnx.Rngs) -> None:
            self.embed = nnx.Embed(7, 5, rngs=rngs)
            self.head = nnx.Linear(5, 7, use_bias=False, rngs=rngs)

    torch_side = nn.ModuleDict({"embed": net.embed, "head": net.head})
    flax = Untied(nnx.Rngs(0))
    port.load(flax, torch_side)
    assert equal(port.to_torch(flax, like=torch_side), torch_side.state_dict())
    flax.head.kernel[...] = flax.head.kernel[...] + 1
    with pytest.raises(WeightsMismatch, match="the tensors differ"):
        port.to_torch(flax, like=torch_side)


def test_what_the_torch_model_has_not_is_refused(net: Net) -> None:
    variables = port.to_flax(net)
    variables["params"]["other"] = {"kernel": np.ones((2, 3), np.float32)}
    with pytest.raises(WeightsMismatch, match=r"other\.kernel"):
        port.to_torch(variables, like=net)


def test_a_layer_without_a_pair_is_named(net: Net) -> None:
    class Own(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ self.weight

    with pytest.raises(NoPair, match=r"own\.weight.*Own"):
        port.to_flax(nn.ModuleDict({"own": Own(3, 2)}))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float8_e5m2"])
def test_short_floats_keep_their_bits(dtype: str) -> None:
    layer = nn.Linear(3, 2).to(getattr(torch, dtype))
    back = port.to_torch(port.to_flax(layer), like=layer)
    for key, tensor in layer.state_dict().items():
        size = torch.uint8 if tensor.element_size() == 1 else torch.int16
        assert back[key].dtype == tensor.dtype
        assert torch.equal(back[key].view(size), tensor.view(size))


def test_a_file_of_flax_variables(net: Net, tmp_path: Path) -> None:
    from port.weights.conversion import convert

    torch.save(net.state_dict(), tmp_path / "net.pt")
    for name, format in {"a.safetensors": "safetensors", "b.msgpack": "msgpack", "c": "orbax"}.items():
        convert(tmp_path / "net.pt", tmp_path / name, torch=net, format=format)
        assert equal(port.to_torch(tmp_path / name, like=net), net.state_dict()), format
        again = Net()
        port.load(again, tmp_path / name)
        assert equal(again.state_dict(), net.state_dict()), format


@pytest.mark.parametrize("cls", [FlaxBands, FlaxPlain])
def test_frozen_variables_go_there_and_back_by_files_too(cls: Any, tmp_path: Path) -> None:
    theirs, ours = TorchBands(), cls(rngs=nnx.Rngs(0))
    torch.save(theirs.state_dict(), tmp_path / "theirs.pt")
    port.load(ours, tmp_path / "theirs.pt")
    variables = port.to_flax(theirs, target=ours)
    assert set(variables.get("Frozen", {})) == ({"scale", "bank"} if cls is FlaxBands else set())
    assert main_of("theirs.pt", tmp_path, cls, "ours.safetensors") == 0
    assert main_of("ours.safetensors", tmp_path, cls, "back.safetensors", "--reverse") == 0
    other = TorchBands()
    port.load(other, tmp_path / "back.safetensors")
    for back in (port.to_torch(ours, like=theirs), port.to_torch(variables, like=theirs), other.state_dict()):
        for name, tensor in theirs.state_dict().items():
            assert torch.equal(back[name], tensor)
    assert [name for name, parameter in other.named_parameters() if not parameter.requires_grad] == [
        "scale",
        "bank.weight",
    ]


def main_of(source: str, folder: Path, cls: Any, out: str, *more: str) -> int:
    models = ["--torch", "models.frozen:TorchBands", "--flax", f"models.frozen:{cls.__name__}"]
    return main(["convert", str(folder / source), *models, "-o", str(folder / out), *more])


def test_a_file_of_frozen_variables_alone_tells_its_collections(tmp_path: Path) -> None:
    ours = frozen(nnx.Linear(3, 2, rngs=nnx.Rngs(0)))
    variables = {"Frozen": {"kernel": np.asarray(ours.kernel[...]), "bias": np.asarray(ours.bias[...])}}
    other = frozen(nnx.Linear(3, 2, rngs=nnx.Rngs(1)))
    path = tmp_path / "all.safetensors"
    save_file({f"Frozen.{name}": array for name, array in variables["Frozen"].items()}, path, {"format": "flax"})
    port.load(other, path)
    np.testing.assert_array_equal(other.kernel[...], ours.kernel[...])


def test_weights_that_torch_freezes_are_remarked_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save(TorchBands().state_dict(), tmp_path / "theirs.pt")
    for cls, is_said in ((FlaxPlain, True), (FlaxBands, False)):
        assert main_of("theirs.pt", tmp_path, cls, f"{cls.__name__}.safetensors") == 0
        assert ("torch does not train scale, bank.weight" in capsys.readouterr().out) == is_said
