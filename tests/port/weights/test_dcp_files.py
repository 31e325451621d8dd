"""Folders of torch.distributed.checkpoint: read bit for bit, and never unpickled."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import warnings
from contextlib import suppress
from pathlib import Path

import jax
import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp
from flax import nnx
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P
from torch.distributed.checkpoint import FileSystemReader

import port
from port.errors import BrokenWeights, UsageError
from port.weights.checkpoint import open_checkpoint
from port.weights.torch_arrays import as_numpy

with suppress(RuntimeError):  # jax has been used: then it has them already
    jax.config.update("jax_num_cpu_devices", 4)

STATE = {
    "a.weight": torch.randn(7, 5, dtype=torch.float64),
    "a.half": torch.randn(3, 2).bfloat16(),
    "b.count": torch.tensor(7),
    "b.flags": torch.tensor([True, False, True]),
    "model.inner.weight": torch.randn(4, 6).T,
}


def save(content: dict, folder: Path) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save(content, checkpoint_id=folder, no_dist=True)
    return folder


def same(folder: Path, state: dict[str, torch.Tensor], key: str | None = None) -> None:
    with open_checkpoint(folder, key=key) as checkpoint:
        assert checkpoint.format == "torch"
        assert set(checkpoint.tensors) == set(state)
        for name, tensor in state.items():
            read, wanted = checkpoint.read(name), as_numpy(tensor)
            assert (read.dtype, read.shape) == (wanted.dtype, wanted.shape)
            assert read.tobytes() == wanted.tobytes()


def test_a_state_dict_is_read_bit_for_bit(tmp_path: Path) -> None:
    """A module of its own that is named model is no place."""
    same(save(STATE, tmp_path / "d"), STATE)


def test_the_model_in_a_training_state(tmp_path: Path) -> None:
    other = {"a.weight": torch.ones(2)}
    folder = save({"model": STATE, "optim": {"state": other}, "step": 3}, tmp_path / "d")
    same(folder, STATE)
    same(folder, {f"state.{name}": tensor for name, tensor in other.items()}, "optim")
    with open_checkpoint(folder) as checkpoint:
        assert checkpoint.left_out == {"step": "not a tensor", "1 tensors": "not under 'model'"}


def test_several_state_dicts(tmp_path: Path) -> None:
    folder = save({"model": STATE, "ema": STATE}, tmp_path / "d")
    with pytest.raises(UsageError, match=r"several state dicts: .*model, ema"):
        open_checkpoint(folder)
    same(folder, STATE, "ema")


def test_a_box_of_it(tmp_path: Path) -> None:
    with open_checkpoint(save(STATE, tmp_path / "d")) as checkpoint:
        read = checkpoint.read_box("model.inner.weight", (range(2, 5), range(1, 3)))
    assert np.array_equal(read, STATE["model.inner.weight"].numpy()[2:5, 1:3])


def test_onto_a_mesh(tmp_path: Path) -> None:
    module = torch.nn.Linear(6, 8)
    folder = save({"model": module.state_dict()}, tmp_path / "d")
    mesh = jax.make_mesh((4,), ("fsdp",), axis_types=(AxisType.Auto,))
    linear = nnx.eval_shape(lambda: nnx.Linear(6, 8, rngs=nnx.Rngs(0)))
    done = port.load(linear, folder, mesh=mesh, sharding={"kernel": P(None, "fsdp"), "bias": P()})
    assert np.array_equal(linear.kernel[...], module.weight.detach().numpy().T)
    assert done.nbytes_read == done.nbytes == 4 * (6 * 8 + 8)


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_nothing_that_it_names_is_run(tmp_path: Path, protocol: int) -> None:
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "run"),)

    folder = save(STATE, tmp_path / "d")
    metadata = FileSystemReader(folder).read_metadata()
    metadata.planner_data = Evil()
    (folder / ".metadata").write_bytes(pickle.dumps(metadata, protocol))
    same(folder, STATE)
    (folder / ".metadata").write_bytes(pickle.dumps(Evil(), protocol))
    with pytest.raises(BrokenWeights, match=r"expected metadata\.Metadata, but found \w+\.mkdir"):
        open_checkpoint(folder)
    assert not (tmp_path / "run").exists()


def changed(folder: Path, change) -> None:
    metadata = FileSystemReader(folder).read_metadata()
    change(metadata)
    (folder / ".metadata").write_bytes(pickle.dumps(metadata))


def set_all(**values):
    def change(metadata) -> None:
        for info in metadata.storage_data.values():
            for name, value in values.items():
                setattr(info, name, value)

    return change


def drop_one(metadata) -> None:
    metadata.storage_data.pop(next(index for index in metadata.storage_data if index.fqn == "a.weight"))


def shrink_one(metadata) -> None:
    metadata.state_dict_metadata["a.weight"].chunks[0].sizes = torch.Size((6, 5))


def double_one(metadata) -> None:
    metadata.state_dict_metadata["a.weight"].chunks *= 2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (set_all(relative_path="../elsewhere"), "'../elsewhere' is not a file of the folder, but a.weight"),
        (set_all(relative_path="__7_0.distcp"), "'__7_0.distcp' is not a file of the folder"),
        (set_all(transform_descriptors=["zstd"]), "went through .*zstd"),
        (set_all(offset=-3), "whole numbers of 0 or more"),
        (drop_one, "a.weight: of 1 chunks 1 are missing"),
        (shrink_one, r"a.weight of shape \(7, 5\): its chunks do not cover it"),
        (double_one, r"a.weight of shape \(7, 5\): its chunks do not cover it"),
    ],
)
def test_what_cannot_be(tmp_path: Path, change, says: str) -> None:
    folder = save(STATE, tmp_path / "d")
    changed(folder, change)
    with pytest.raises(BrokenWeights, match=says):
        open_checkpoint(folder)


def test_a_file_that_is_cut_off(tmp_path: Path) -> None:
    folder = save(STATE, tmp_path / "d")
    (file,) = folder.glob("*.distcp")
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(BrokenWeights, match=f"{file.name} has .* bytes, but .* should reach to byte .*cut short"):
        open_checkpoint(folder)


def test_a_place_that_holds_something_else(tmp_path: Path) -> None:
    folder = save(STATE, tmp_path / "d")
    changed(folder, set_all(offset=3))
    with open_checkpoint(folder) as checkpoint, pytest.raises(BrokenWeights, match=r"a\.half at byte 3 cannot be read"):
        checkpoint.read("a.half")


@pytest.mark.parametrize("length", [0, 10, 400])
def test_metadata_that_is_cut_off(tmp_path: Path, length: int) -> None:
    folder = save(STATE, tmp_path / "d")
    (folder / ".metadata").write_bytes((folder / ".metadata").read_bytes()[:length])
    with pytest.raises(BrokenWeights, match="cannot be read as the metadata of"):
        open_checkpoint(folder)


RANKS = """
import sys, torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
from torch.distributed.fsdp import fully_shard
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
rank, folder = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method="file://" + folder + "/store", rank=rank, world_size=2)
torch.manual_seed(0)
module = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Linear(5, 8), torch.nn.BatchNorm1d(8))
for layer in module[:2]:
    fully_shard(layer)
dcp.save({"model": get_model_state_dict(module)}, checkpoint_id=folder + "/sharded")
full = get_model_state_dict(module, options=StateDictOptions(full_state_dict=True))
if rank == 0:
    torch.save(full, folder + "/full.pt")
dist.destroy_process_group()
"""


@pytest.mark.sweep
def test_what_two_ranks_of_fsdp_wrote(tmp_path: Path) -> None:
    """Five rows on two ranks: chunks of unequal size."""
    ranks = [
        subprocess.Popen([sys.executable, "-c", RANKS, str(rank), str(tmp_path)], stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    for rank in ranks:
        _, errors = rank.communicate(timeout=200)
        assert rank.returncode == 0, errors
    full = torch.load(tmp_path / "full.pt")
    same(tmp_path / "sharded", full)
    assert len(list((tmp_path / "sharded").glob("*.distcp"))) == 2
    with open_checkpoint(tmp_path / "sharded") as checkpoint:
        box = (range(1, 4), range(2, 6))  # over both ranks' rows
        assert np.array_equal(checkpoint.read_box("0.weight", box), full["0.weight"].numpy()[1:4, 2:6])
