"""A part of a tensor, of every kind of file: the same bits as of the whole, in memory of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from port.moves.boxes import cut, size_of
from port.weights import orbax_writing
from port.weights.box_files import ALIGNED, aligned, copied
from port.weights.checkpoint import open_checkpoint, write_checkpoint
from port.weights.sources import opened
from tests.port.weights.some_tensors import some, tensors_of

ARRAYS = {
    "a.kernel": some("float32", (37, 12, 5)),
    "a.half": some("bfloat16", (64, 9)),
    "b.bias": some("float64", (11,)),
    "b.count": some("int64", ()),
    "b.flag": some("bool", (3, 7)),
}
BOXES = {
    "a.kernel": (range(9, 31), range(2, 9), range(1, 4)),
    "a.half": (range(16, 32), range(9)),
    "b.bias": (range(4, 5),),
    "b.count": (),
    "b.flag": (range(3), range(7)),
}


def write(folder: Path, kind: str) -> Path:
    if kind == "torch":
        torch.save({name: torch.from_numpy(a.view(np.uint8).copy()) for name, a in ARRAYS.items()}, folder / "w.pt")
        return folder / "w.pt"
    path = folder / {"shards": "w", "orbax": "w"}.get(kind, f"w.{kind}")
    format, limit = ("safetensors", 4000) if kind == "shards" else (kind, None)
    arrays = {name: array for name, array in ARRAYS.items() if kind != "npz" or name != "a.half"}
    write_checkpoint(path, tensors_of(arrays), format=format, max_shard_size=limit)
    return path


@pytest.mark.parametrize("kind", ["safetensors", "shards", "orbax", "npz", "msgpack"])
def test_a_box_has_the_bits_of_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(orbax_writing, "CHUNK", 500)  # several chunks
    with open_checkpoint(write(tmp_path, kind)) as checkpoint, opened(checkpoint) as source:
        assert source.reads_boxes == (kind not in ("npz", "msgpack"))
        for name in checkpoint.tensors:
            box = BOXES[name]
            wanted = cut(ARRAYS[name], box)
            for read in (checkpoint.read_box(name, box), source.renamed({name: "new"}).box("new", box)):
                assert (read.dtype, read.shape) == (wanted.dtype, wanted.shape)
                assert read.tobytes() == wanted.tobytes()
            # The whole is read as before, whatever was let go behind the box.
            assert checkpoint.read(name).tobytes() == ARRAYS[name].tobytes()


def test_a_box_of_what_torch_saved(tmp_path: Path) -> None:
    weight = torch.randn(8, 6)
    torch.save({"model": {"t": weight.T, "w": weight}}, tmp_path / "w.pt")
    with open_checkpoint(tmp_path / "w.pt") as checkpoint:
        box = (range(1, 3), range(2, 7))
        assert np.array_equal(checkpoint.read_box("t", box), weight.T.numpy()[1:3, 2:7])
        assert checkpoint.read_box("t", box).flags.c_contiguous


def test_a_box_is_nobody_elses_memory(tmp_path: Path) -> None:
    path = write(tmp_path, "safetensors")
    with open_checkpoint(path) as checkpoint:
        read = checkpoint.read_box("a.half", BOXES["a.half"])
    assert read.flags.writeable
    assert read.ctypes.data % ALIGNED == 0
    assert size_of(BOXES["a.half"]) == read.size


def test_copies_lie_on_a_boundary() -> None:
    for shape in ((3,), (), (1000, 3)):
        array = aligned(shape, np.dtype(np.float32))
        assert (array.shape, array.dtype, array.ctypes.data % ALIGNED) == (shape, np.float32, 0)
    transposed = np.arange(6.0).reshape(2, 3).T
    assert copied(transposed).flags.c_contiguous
    assert np.array_equal(copied(transposed), transposed)
