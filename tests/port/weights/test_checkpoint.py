"""Any weights file, in and out: what it is, and that it is there whole or not at all."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import torch

from port.errors import BrokenWeights, PortError, UsageError
from port.weights.checkpoint import Tensor, open_checkpoint, write_checkpoint
from port.weights.formats import FORMATS

RANDOM = np.random.default_rng(0)
ARRAYS = {
    "encoder.0.kernel": RANDOM.normal(size=(3, 4, 2)).astype(np.float32),
    "encoder.0.bias": RANDOM.normal(size=(2,)),
    "encoder.10.kernel": RANDOM.normal(size=(5, 3)).astype(np.float16),
    "count": np.array(7, np.int64),
}


def tensors_of(arrays: dict[str, np.ndarray]) -> list[Tensor]:
    return [Tensor(name, array.shape, array.dtype, lambda array=array: array) for name, array in arrays.items()]


def assert_holds(path: Path, arrays: dict[str, np.ndarray], key: str | None = None) -> None:
    with open_checkpoint(path, key=key) as checkpoint:
        assert set(checkpoint.tensors) == set(arrays)
        for name, array in arrays.items():
            read = checkpoint.read(name)
            assert (read.dtype, read.shape) == (array.dtype, array.shape)
            assert read.tobytes() == array.tobytes()


WAYS = [(format, None) for format in FORMATS] + [("safetensors", 100)]


def of(format: str) -> dict[str, Any]:
    """What else a format is written with."""
    return {"config": "{}"} if format == "peft" else {}


@pytest.mark.parametrize(("format", "size"), WAYS)
@pytest.mark.parametrize("name", ["w", "weights.bin"])
def test_what_is_written_is_read_whatever_its_name(tmp_path: Path, format: str, size: int | None, name: str) -> None:
    paths = write_checkpoint(tmp_path / name, tensors_of(ARRAYS), format=format, max_shard_size=size, **of(format))
    assert sorted(paths) == sorted(path for path in tmp_path.rglob("*") if path.is_file())
    assert_holds(tmp_path / name, ARRAYS)
    # A folder of the hub, or of PEFT's, holds safetensors.
    assert open_checkpoint(tmp_path / name).format == ("safetensors" if format in ("hf", "peft") else format)
    if format == "torch":
        return  # its key is a place in what was saved, no beginning of names
    inner = {"0.kernel", "0.bias", "10.kernel"}
    assert_holds(tmp_path / name, {path: ARRAYS[f"encoder.{path}"] for path in inner}, key="encoder")
    with pytest.raises(UsageError, match=r"no names that begin with 'decoder\.'; they begin with count, encoder"):
        open_checkpoint(tmp_path / name, key="decoder")


@pytest.mark.parametrize(("format", "size"), WAYS)
def test_what_is_there_stays_unless_said_otherwise(tmp_path: Path, format: str, size: int | None) -> None:
    path = tmp_path / "w"

    def write(arrays: dict[str, np.ndarray], **options: Any) -> None:
        write_checkpoint(path, tensors_of(arrays), format=format, max_shard_size=size, **of(format), **options)

    write(ARRAYS)
    with pytest.raises(UsageError, match=f"{path} is there already"):
        write({"a": np.ones(2)})
    assert_holds(path, ARRAYS)
    broken = [*tensors_of({"a": np.ones(20)}), Tensor("b", (2,), np.dtype(np.float64), lambda: np.ones(3))]
    with pytest.raises(BrokenWeights, match="b was declared as float64"):
        write_checkpoint(path, broken, format=format, max_shard_size=size, overwrite=True, **of(format))
    assert_holds(path, ARRAYS)
    write({"a": np.ones(2)}, overwrite=True)
    assert_holds(path, {"a": np.ones(2)})
    assert os.listdir(tmp_path) == ["w"]


@pytest.mark.parametrize(("format", "size"), WAYS)
def test_a_persons_folder_is_never_replaced(tmp_path: Path, format: str, size: int | None) -> None:
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "config.json").write_text("{}")
    given = {"format": format, "max_shard_size": size, "overwrite": True, **of(format)}
    with pytest.raises(UsageError, match="not one that the weights may replace"):
        write_checkpoint(tmp_path / "w", tensors_of(ARRAYS), **given)
    assert os.listdir(tmp_path / "w") == ["config.json"]


@pytest.mark.parametrize(("format", "size"), [way for way in WAYS if way[0] not in ("torch", "peft")])
def test_what_a_file_says_of_itself(tmp_path: Path, format: str, size: int | None) -> None:
    """Asked for before and behind the tensors; the file has what is known behind them, and no tensor for it."""
    asked: list[str] = []

    def metadata() -> dict[str, str]:
        asked.append("")
        return {"format": "flax", "told": f"ü{len(asked):08d}"}

    write_checkpoint(tmp_path / "w", tensors_of(ARRAYS), format=format, max_shard_size=size, metadata=metadata)
    assert_holds(tmp_path / "w", ARRAYS)
    with open_checkpoint(tmp_path / "w") as checkpoint:
        assert checkpoint.metadata == {"format": "flax", "told": f"ü{len(asked):08d}"}
    assert open_checkpoint(tmp_path / "w", key="encoder").metadata == {"format": "flax"}


def test_an_adapter_s_folder_has_its_config_and_nothing_else(tmp_path: Path) -> None:
    path, tensors = tmp_path / "w", tensors_of(ARRAYS)
    with pytest.raises(UsageError, match="a PEFT folder has the adapter's config"):
        write_checkpoint(path, tensors, format="peft")
    with pytest.raises(UsageError, match="no shards, mesh or other files"):
        write_checkpoint(path, tensors, format="peft", config="{}", max_shard_size=100)
    written = write_checkpoint(path, tensors, format="peft", config='{"r": 8}')
    assert [file.name for file in written] == ["adapter_config.json", "adapter_model.safetensors"]
    assert (path / "adapter_config.json").read_text() == '{"r": 8}'
    assert not list(tmp_path.glob(".*"))


def test_metadata_that_grows_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    asked: list[int] = []

    def metadata() -> dict[str, str]:
        asked.append(0)
        return {"told": "longer " * 10 * len(asked)}

    with pytest.raises(BrokenWeights, match="bytes were reserved for it"):
        write_checkpoint(tmp_path / "w", tensors_of(ARRAYS), format="safetensors", metadata=metadata)
    with pytest.raises(BrokenWeights, match="but read as"):
        write_checkpoint(tmp_path / "w", tensors_of(ARRAYS), format="msgpack", metadata=metadata)
    assert os.listdir(tmp_path) == []


KILLED = """
import os, sys, time
import numpy as np
from pathlib import Path
from port.weights.checkpoint import Tensor, write_checkpoint

def read(number):
    if number == 3:
        Path(sys.argv[3]).touch()  # half of the tensors are written
        time.sleep(60)
    return np.full((1000, 100), number, np.float32)

tensors = [
    Tensor(f"t{number}", (1000, 100), np.dtype(np.float32), lambda number=number: read(number))
    for number in range(6)
]
size = int(sys.argv[4]) or None
write_checkpoint(sys.argv[1], tensors, format=sys.argv[2], max_shard_size=size, overwrite=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="asks for SIGKILL")
@pytest.mark.parametrize(("format", "size"), [*WAYS[:2], ("safetensors", 500_000)])
def test_a_killed_process_leaves_what_was_there(tmp_path: Path, format: str, size: int | None) -> None:
    folder = tmp_path / "target"
    for before in (False, True):
        if before:
            write_checkpoint(folder / "w", tensors_of(ARRAYS), format=format, max_shard_size=size)
        half_way = tmp_path / f"half way {before}"
        command = [sys.executable, "-c", KILLED, str(folder / "w"), format, str(half_way), str(size or 0)]
        process = subprocess.Popen(command)
        give_up = time.monotonic() + 60
        while not half_way.exists():
            assert process.poll() is None and time.monotonic() < give_up
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        hidden = [name for name in os.listdir(folder) if name.startswith(".w.")]
        assert len(hidden) == 1 + before  # it was at work
        if before:
            assert_holds(folder / "w", ARRAYS)
        else:
            assert not (folder / "w").exists()


def test_options_that_do_not_go_together(tmp_path: Path) -> None:
    for options, reason in (
        ({"format": "gguf"}, "unknown format 'gguf'; there are: "),
        ({"format": "msgpack", "max_shard_size": 10}, "max_shard_size needs format='safetensors'"),
        ({"format": "npz", "max_shard_size": 10}, "max_shard_size needs format='safetensors'"),
    ):
        with pytest.raises(UsageError, match=reason):
            write_checkpoint(tmp_path / "w", tensors_of(ARRAYS), **options)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="the same name: count"):
        write_checkpoint(tmp_path / "w", tensors_of(ARRAYS) + tensors_of({"count": np.ones(2)}), format="safetensors")
    for format in ("msgpack", "orbax"):
        with pytest.raises(UsageError, match=r"'count' and 'count\.b' cannot both be nested"):
            write_checkpoint(tmp_path / "w", tensors_of(ARRAYS | {"count.b": np.ones(2)}), format=format)
    write_checkpoint(tmp_path / "flat", tensors_of(ARRAYS | {"count.b": np.ones(2)}), format="safetensors")
    assert os.listdir(tmp_path) == ["flat"]


@pytest.mark.parametrize(
    ("contents", "reason"),
    [
        (b"", "is empty"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "Git LFS pointer"),
        (b"<!DOCTYPE html>", "a page of HTML"),
        (b"just some text here", "not a known weights file: it begins with b'just som'"),
        (b"\0", "not a known weights file"),
        (b"PK\x03\x04" + bytes(500), "is not a complete file of torch.save.*cut short"),
        (b"\x80\x02.", "cannot be read as a file of torch.save"),
        (struct.pack("<Q", 2) + b"{}x", "the tensors need 0 bytes after the header, but the file has 1"),
        (b"\x81\xa1a", "cannot be read as a msgpack file"),
    ],
)
def test_files_that_are_none_are_named_with_what_was_found(tmp_path: Path, contents: bytes, reason: str) -> None:
    path = tmp_path / "w"
    path.write_bytes(contents)
    with pytest.raises(BrokenWeights, match=f"{path}.*{reason}"):
        open_checkpoint(path)
    for suffix in (".safetensors", ".pt", ".msgpack", ".bin"):
        path.with_suffix(suffix).write_bytes(contents)
        with pytest.raises(BrokenWeights, match=str(path.with_suffix(suffix))):
            open_checkpoint(path.with_suffix(suffix))


@pytest.mark.parametrize("format", ["safetensors", "msgpack", "torch"])
def test_bytes_of_any_kind_are_read_or_named(tmp_path: Path, format: str) -> None:
    path = tmp_path / "w"
    if format == "torch":
        torch.save({name: torch.ones(3) for name in ARRAYS}, path)
    else:
        write_checkpoint(path, tensors_of(ARRAYS), format=format)
    whole = path.read_bytes()
    refused = 0
    for _ in range(200):
        contents = bytearray(whole[: RANDOM.integers(1, len(whole) + 1)] if RANDOM.random() < 0.2 else whole)
        for _ in range(RANDOM.integers(1, 4)):
            contents[RANDOM.integers(0, min(len(contents), 300))] = RANDOM.integers(0, 256)
        path.write_bytes(contents)
        try:
            with open_checkpoint(path) as checkpoint:
                for name in checkpoint.tensors:
                    checkpoint.read(name)
        except PortError as error:
            assert str(path) in str(error)
            refused += 1
    assert refused > 50


@pytest.mark.parametrize("length", [*range(64, 2048, 8), 0x3C, 0x8B1F])
def test_a_header_of_any_length_is_safetensors(tmp_path: Path, length: int) -> None:
    """640 is how a pickle begins, 0x3c how HTML does, 0x8b1f how gzip does."""
    header = b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    contents = struct.pack("<Q", length) + header.ljust(length) + np.array([1, 2], np.float32).tobytes()
    (tmp_path / "weights.safetensors").write_bytes(contents)
    assert_holds(tmp_path / "weights.safetensors", {"a": np.array([1, 2], np.float32)})


def test_places_where_nothing_is(tmp_path: Path) -> None:
    with pytest.raises(BrokenWeights, match="there is no such file or folder"):
        open_checkpoint(tmp_path / "missing")
    with pytest.raises(BrokenWeights, match=f"{tmp_path} has no checkpoint: .* it has nothing"):
        open_checkpoint(tmp_path)
    (tmp_path / "notes.txt").touch()
    with pytest.raises(BrokenWeights, match=r"it has notes\.txt"):
        open_checkpoint(tmp_path)
    (tmp_path / "other").touch()
    with pytest.raises(BrokenWeights, match=f"{tmp_path / 'other' / 'w'} cannot be read"):
        open_checkpoint(tmp_path / "other" / "w")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "w", tensors_of(ARRAYS), format="safetensors")
    (tmp_path / "w").chmod(0)
    with pytest.raises(BrokenWeights, match="Permission denied"):
        open_checkpoint(tmp_path / "w")


def test_a_folder_with_one_model_in_it(tmp_path: Path) -> None:
    safetensors.numpy.save_file({"a": np.ones(2)}, tmp_path / "model.safetensors")
    torch.save({"a": torch.zeros(2)}, tmp_path / "pytorch_model.bin")
    (tmp_path / "config.json").write_text("{}")
    assert_holds(tmp_path, {"a": np.ones(2)})
    (tmp_path / "model.safetensors").unlink()
    assert_holds(tmp_path, {"a": np.zeros(2, np.float32)})
    (tmp_path / "pytorch_model.bin").rename(tmp_path / "best.pt")
    assert_holds(tmp_path, {"a": np.zeros(2, np.float32)})
    torch.save({"a": torch.zeros(2)}, tmp_path / "last.pt")
    with pytest.raises(UsageError, match=r"several weights files: best\.pt, last\.pt\. Name one"):
        open_checkpoint(tmp_path)


def test_the_state_dict_of_a_torch_file(tmp_path: Path) -> None:
    torch.save({"model": {"a": torch.ones(2)}, "ema": {"a": torch.zeros(2)}}, tmp_path / "w.ckpt")
    assert_holds(tmp_path / "w.ckpt", {"a": np.zeros(2, np.float32)}, key="ema")
    with pytest.raises(UsageError, match="several state dicts"):
        open_checkpoint(tmp_path / "w.ckpt")
