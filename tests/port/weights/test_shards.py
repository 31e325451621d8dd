"""Checkpoints in several files, as Hugging Face lays them out, and all that can be wrong with them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch

from port.errors import BrokenWeights, UsageError
from port.weights.checkpoint import Tensor, open_checkpoint, write_checkpoint

RANDOM = np.random.default_rng(0)
ARRAYS = {f"layers.{index}.weight": RANDOM.normal(size=(index + 1, 3)) for index in range(5)}  # 24 to 120 bytes
TENSORS = [Tensor(name, array.shape, array.dtype, lambda array=array: array) for name, array in ARRAYS.items()]
INDEX = "model.safetensors.index.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three shards: the first three tensors, and the others one each."""
    write_checkpoint(tmp_path / "model", TENSORS, format="safetensors", max_shard_size=150, metadata={"format": "pt"})
    return tmp_path / "model"


def change(folder: Path, changes: dict[str, str | None]) -> None:
    """Move names in the index to other files, or (None) out of it."""
    content = json.loads((folder / INDEX).read_text())
    content["weight_map"] |= changes
    content["weight_map"] = {name: shard for name, shard in content["weight_map"].items() if shard is not None}
    (folder / INDEX).write_text(json.dumps(content))


def test_the_layout(folder: Path) -> None:
    files = [f"model-0000{number}-of-00003.safetensors" for number in (1, 2, 3)]
    assert sorted(path.name for path in folder.iterdir()) == [*files, INDEX]
    index = json.loads((folder / INDEX).read_text())
    assert index["metadata"] == {"total_size": sum(array.nbytes for array in ARRAYS.values())}
    assert list(index["weight_map"]) == list(ARRAYS)
    for file in files:  # the library's view
        held = safetensors.numpy.load_file(folder / file)
        assert set(held) == {name for name, shard in index["weight_map"].items() if shard == file}
        assert sum(array.nbytes for array in held.values()) <= 150
        with safetensors.safe_open(folder / file, "numpy") as shard:
            assert shard.metadata() == {"format": "pt"}


@pytest.mark.parametrize("name", ["", INDEX])
def test_reading(folder: Path, name: str) -> None:
    with open_checkpoint(folder / name) as checkpoint:
        assert (checkpoint.format, checkpoint.metadata) == ("safetensors", {"format": "pt"})
        assert list(checkpoint.tensors) == list(ARRAYS)
        for tensor, array in ARRAYS.items():
            np.testing.assert_array_equal(checkpoint.read(tensor), array)
    with pytest.raises(UsageError, match="closed"):
        checkpoint.read("layers.0.weight")


def test_one_shard_is_one_file_and_a_large_tensor_has_its_own(tmp_path: Path) -> None:
    (path,) = write_checkpoint(tmp_path / "one", TENSORS, format="safetensors", max_shard_size=10_000)
    assert path == tmp_path / "one" / "model.safetensors"
    assert list(open_checkpoint(tmp_path / "one").tensors) == list(ARRAYS)
    paths = write_checkpoint(tmp_path / "five", TENSORS, format="safetensors", max_shard_size=1)
    assert len(paths) == len(ARRAYS) + 1
    with pytest.raises(UsageError, match="at least 1"):
        write_checkpoint(tmp_path / "none", TENSORS, format="safetensors", max_shard_size=0)


def test_shards_of_torch(tmp_path: Path) -> None:
    shared = torch.randn(3, 2)
    torch.save({"a": shared, "b": shared}, tmp_path / "pytorch_model-00001-of-00002.bin")
    torch.save({"c": torch.ones(2)}, tmp_path / "pytorch_model-00002-of-00002.bin")
    places = {name: f"pytorch_model-0000{number}-of-00002.bin" for name, number in (("a", 1), ("b", 1), ("c", 2))}
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": places}))
    with open_checkpoint(tmp_path) as checkpoint:
        assert (checkpoint.format, checkpoint.aliases) == ("torch", {"b": "a"})
        np.testing.assert_array_equal(checkpoint.read("b"), shared.numpy())


def test_an_index_that_names_an_index(folder: Path) -> None:
    index = folder / "model.safetensors.index.json"
    (folder / "other.index.json").write_text(index.read_text())
    content = json.loads(index.read_text())
    content["weight_map"] |= {"x": index.name, "y": "other.index.json"}
    index.write_text(json.dumps(content))
    with pytest.raises(BrokenWeights) as raised:
        open_checkpoint(index)
    _, *lines = str(raised.value).splitlines()
    assert [line.strip() for line in lines] == [
        "model.safetensors.index.json is the index itself, not a file of tensors",
        "other.index.json is another index, not a file of tensors",
    ]


def test_an_index_that_names_nothing(folder: Path) -> None:
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {}}')
    with pytest.raises(BrokenWeights, match="its weight_map is empty, so the index names no tensors"):
        open_checkpoint(folder)


@pytest.mark.parametrize("left", [1, 2])
def test_a_folder_that_lost_its_index(folder: Path, left: int) -> None:
    (folder / "model.safetensors.index.json").unlink()
    shards = sorted(folder.glob("model-*-of-*.safetensors"))
    for shard in shards[left:]:
        shard.unlink()
    said = rf"has {left} of the {len(shards)} files .* no index\. Copy model\.safetensors\.index\.json from"
    with pytest.raises(BrokenWeights, match=said):
        open_checkpoint(folder)


def test_links_are_followed(folder: Path) -> None:
    """A download cache holds links to files elsewhere."""
    shard = folder / "model-00001-of-00003.safetensors"
    shard.rename(folder.parent / "blob")
    shard.symlink_to("../blob")
    assert set(open_checkpoint(folder).tensors) == set(ARRAYS)


def test_all_that_is_wrong_is_told_at_once(folder: Path) -> None:
    first, second, third = (f"model-0000{number}-of-00003.safetensors" for number in (1, 2, 3))
    safetensors.numpy.save_file({"layers.3.weight": np.ones(2), "layers.0.weight": np.ones(2)}, folder / second)
    (folder / third).unlink()
    change(folder, {"layers.1.weight": second, "layers.2.weight": None, "new": first, "up": "../up.safetensors"})
    with pytest.raises(BrokenWeights) as error:
        open_checkpoint(folder)
    for problem in (
        f"{third}: there is no such file",
        "'../up.safetensors' is not a file name",
        f"layers.1.weight is not in {second}, but in {first}",
        f"new is not in {first}\n",
        f"layers.0.weight is in {first} and in {second}",
        f"layers.2.weight is in {first}, but not in the index",
    ):
        assert problem in f"{error.value}\n"


@pytest.mark.parametrize(
    "shard", ["../model.safetensors", "/etc/passwd", "a/b.safetensors", "..", ".", "", "a\\b", "C:x", "a\0b"]
)
def test_no_shard_is_looked_for_elsewhere(folder: Path, shard: str) -> None:
    (folder.parent / "model.safetensors").write_bytes((folder / "model-00001-of-00003.safetensors").read_bytes())
    change(folder, dict.fromkeys(list(ARRAYS)[:3], shard))
    with pytest.raises(BrokenWeights, match="not a file name"):
        open_checkpoint(folder)


@pytest.mark.parametrize(
    "contents",
    [
        b"", b"{", b"[]", b"{}", b'{"weight_map": []}', b'{"weight_map": {"a": 1}}', b"\xff", b"[" * 200_000,
        b'{"weight_map": {"a": "x.safetensors", "a": "y.safetensors"}}',
    ],
)  # fmt: skip
def test_an_index_that_is_none(folder: Path, contents: bytes) -> None:
    (folder / INDEX).write_bytes(contents)
    with pytest.raises(BrokenWeights, match=r"index of shards|occurs twice"):
        open_checkpoint(folder)
