"""What is mistaken for a weights file is named, each with what to do."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from port.errors import BrokenWeights
from port.weights.checkpoint import open_checkpoint


def archive(*names: str) -> bytes:
    with zipfile.ZipFile(buffer := io.BytesIO(), "w") as file:
        for name in names:
            file.writestr(name, b"content")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "contents", "reason"),
    [
        ("w", b"\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes: .*numpy.savez"),
        ("w.npy", b"\x93NUMPY\x01\x00", "a single numpy array: .*numpy.savez"),
        ("w", b"\x1f\x8b\x08", "a gzip archive: unpack"),
        ("w", b"\x28\xb5\x2f\xfd\x08", "a Zstandard archive: unpack"),
        ("w.gguf", b"GGUF\x03\0\0\0", "a GGUF file.*original checkpoint"),
        ("w.onnx", b"\x08\x09:\x80", "an ONNX program: .*exported from"),
        ("w", b"\x08\x08\x12\x07pytorch\x1a\x05", "an ONNX program"),
        ("w.tflite", b"\x1c\0\0\0TFL3", "a program of TensorFlow Lite"),
        ("model.ckpt.index", bytes(20), "a file of TensorFlow's: .*load_checkpoint"),
        ("model.ckpt.data-00000-of-00001", bytes(20), "a file of TensorFlow's"),
        ("w.pkl", pickle.dumps({"a": np.ones(2)}), "a pickle, as pickle.dump .* never unpickled here"),
        ("w.keras", archive("config.json", "model.weights.h5"), "a Keras model: .*get_weights"),
        ("w.pt2", archive("w/archive_format", "w/models/model.json"), "a program of torch.export"),
        ("w.zip", archive("w.pth", "readme"), "a zip archive of other files: unpack"),
    ],
)
def test_files(tmp_path: Path, name: str, contents: bytes, reason: str) -> None:
    (tmp_path / name).write_bytes(contents)
    with pytest.raises(BrokenWeights, match=rf"{name} is not a weights file that can be read, but {reason}"):
        open_checkpoint(tmp_path / name)


@pytest.mark.sweep
def test_a_program_of_torch_export(tmp_path: Path) -> None:
    program = torch.export.export(torch.nn.Linear(2, 3), (torch.ones(4, 2),))
    torch.export.save(program, tmp_path / "w.pt2")
    with pytest.raises(
        BrokenWeights, match=r"torch\.export: torch\.save the weights from torch\.export\.load\(file\)\.state_dict"
    ):
        open_checkpoint(tmp_path / "w.pt2")


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (("__0_0.distcp", "__1_0.distcp"), "torch.distributed.checkpoint without its .metadata"),
        (("saved_model.pb", "variables"), "a folder of TensorFlow's"),
        (("model.ckpt.index", "model.ckpt.data-00000-of-00001"), "a folder of TensorFlow's"),
    ],
)
def test_folders(tmp_path: Path, names: tuple[str, ...], reason: str) -> None:
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(BrokenWeights, match=f"{tmp_path} is not a checkpoint that can be read, but .*{reason}"):
        open_checkpoint(tmp_path)
