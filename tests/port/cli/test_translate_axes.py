"""`port translate --logical-axes`: the names in the source that it writes, a ``load`` onto a mesh, and the report."""

from __future__ import annotations

from math import prod
from pathlib import Path
from types import ModuleType

import jax
import numpy as np
import pytest
import torch
from flax import nnx
from jax.sharding import AxisType, PartitionSpec
from safetensors.numpy import load_file, save_file
from torch import Tensor, nn

from port.cli import main
from port.errors import UsageError, WeightsMismatch
from port.scripts.imported_file import import_file

# The proof filters an nnx.State with a method that flax is about to take away.
pytestmark = pytest.mark.filterwarnings("ignore:`flax.nnx.State` will be deprecated:DeprecationWarning")


HERE = "tests.port.cli.test_translate_axes"


class Words(nn.Module):
    """A table, two projections, and a parameter whose axes have no name."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.up, self.down = nn.Embedding(12, 8), nn.Linear(8, 20), nn.Linear(20, 8)
        self.turn = nn.Parameter(torch.randn(3, 5))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.table(ids)
        return x + self.down(torch.relu(self.up(x))) * self.turn.sum()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("words") / "ported"


@pytest.fixture(scope="module")
def written(folder: Path) -> ModuleType:
    options = ["--input", "2,7:int64", "--static", "--logical-axes", "--sizes-limit", "0", "-o", str(folder)]
    assert main(["translate", f"{HERE}:Words", *options]) == 0
    return import_file(folder / "words.py", "written_words")


def mesh(**axes: int) -> jax.sharding.Mesh:
    auto = (AxisType.Auto,) * len(axes)
    return jax.make_mesh(
        tuple(axes.values()), tuple(axes), axis_types=auto, devices=jax.devices()[: prod(axes.values())]
    )


@pytest.mark.sweep
def test_the_source_says_the_names_and_the_rules(written: ModuleType, folder: Path) -> None:
    source = (folder / "words.py").read_text()
    assert 'kernel_metadata=logical_axes("embed", "mlp")' in source
    assert 'embedding_metadata=logical_axes("vocab", "embed")' in source
    rules = {"batch": ("data", "fsdp"), "length": None, "embed": "fsdp", "mlp": "tensor", "vocab": "tensor"}
    assert rules == written.RULES


def test_what_has_no_name_is_told(written: ModuleType, folder: Path) -> None:
    assert (
        "- without logical names, and whole on every device of a mesh: `turn`\n" in (folder / "report.md").read_text()
    )


@pytest.mark.sweep
def test_without_the_flag_nothing_has_a_name(tmp_path: Path) -> None:
    assert (
        main(["translate", f"{HERE}:Words", "--input", "2,7:int64", "--sizes-limit", "0", "-o", str(tmp_path / "no")])
        == 0
    )
    source = (tmp_path / "no" / "words.py").read_text()
    assert not any(word in source for word in ("logical_axes", "RULES", "mesh"))


def test_load_lays_the_model_on_a_mesh(written: ModuleType) -> None:
    whole = written.load()
    placed = written.load(mesh=mesh(fsdp=2, tensor=2), rules={"vocab": None})
    specs = {
        path[0]: each.get_value().sharding.spec
        for path, each in nnx.to_flat_state(nnx.state(placed))
        if "bias" not in path
    }
    assert specs["up"] == PartitionSpec("fsdp", "tensor")
    assert specs["table"] == PartitionSpec(None, "fsdp")
    for (path, one), (other, two) in zip(
        nnx.to_flat_state(nnx.state(whole)), nnx.to_flat_state(nnx.state(placed)), strict=True
    ):
        assert path == other
        np.testing.assert_array_equal(one.get_value(), two.get_value())
    kernel = placed.up.kernel.get_value()
    assert {shard.data.shape for shard in kernel.addressable_shards} == {(4, 10)}


def test_a_mesh_that_does_not_fit_is_refused(written: ModuleType, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no rule divides anything along model of the mesh"):
        written.load(mesh=mesh(model=2))
    with pytest.raises(
        WeightsMismatch, match=r"table.embedding \(12, 8\): axis 1, embed, of 8 is not divided by fsdp of 3"
    ):
        written.load(mesh=mesh(fsdp=3))
    arrays = load_file(folder / "words.safetensors")
    save_file({name: array for name, array in arrays.items() if name != "up.bias"}, tmp_path / "cut.safetensors")
    with pytest.raises(WeightsMismatch, match=r"cut\.safetensors does not .* of this Words: up\.bias is missing$"):
        written.load(tmp_path / "cut.safetensors", mesh=mesh(fsdp=2))
