"""Recognizes files and folders that are mistaken for weights files, and says what to do about each."""

from __future__ import annotations

from pathlib import Path
from zipfile import BadZipFile, ZipFile

_SAVE = "where it can be loaded, write its arrays with numpy.savez or as safetensors"
_BEGINNINGS = {
    b"version https://git-lfs": "a Git LFS pointer: the file itself has not been fetched (git lfs pull)",
    b"\x89HDF": f"an HDF5 file, as Keras writes: {_SAVE}",
    b"\x93NUMPY": "a single numpy array: put the arrays of a model into one file with numpy.savez, each under its name",
    b"GGUF": "a GGUF file, of quantized weights: take the original checkpoint (safetensors, or torch's)",
    b"<": "a page of HTML or XML, as a failed download leaves",
    b"\x1f\x8b": "a gzip archive: unpack it first",
    b"\x28\xb5\x2f\xfd": "a Zstandard archive: unpack it first",
    b"BZh": "a bzip2 archive: unpack it first",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive: unpack it first",
}
_ONNX = "an ONNX program: use the checkpoint that it was exported from, or write the arrays of onnx.load(…).graph"
_TENSORFLOW = f"TensorFlow's: {_SAVE} (tf.train.load_checkpoint returns them)"
_EXPORTED = "a program of torch.export: torch.save the weights from torch.export.load(file).state_dict"
_KERAS = f"a Keras model: {_SAVE} (model.get_weights() returns them)"
_ZIP = "a zip archive of other files: unpack it first"
_PICKLE = f"a pickle, as pickle.dump or joblib writes: it could run anything, and is never unpickled here; {_SAVE}"


def what_else(path: Path, begin: bytes) -> str | None:
    """Say what a file without readable weights is; None if that is unknown.

    Args:
        path: the file.
        begin: its first 64 bytes.
    """
    for beginning, what in _BEGINNINGS.items():
        if begin.startswith(beginning):
            return what
    if begin[4:8] == b"TFL3":
        return "a program of TensorFlow Lite: use the checkpoint that it was made from"
    is_named = path.suffix.lower() == ".onnx" or any(producer in begin for producer in (b"pytorch", b"onnx"))
    if begin[:1] == b"\x08" and is_named:
        return _ONNX
    if path.suffix.lower() in (".pb", ".index") or ".data-0" in path.name:
        return f"a file of {_TENSORFLOW}"
    if begin[0] == 0x80 and begin[1:2] in (b"\x03", b"\x04", b"\x05"):
        return _PICKLE
    return _in_archive(path) if begin[:4] == b"PK\x03\x04" else None


def what_folder(names: list[str]) -> str | None:
    """Say what a folder without readable weights is, by the names in it; None if they do not show it."""
    if any(name.endswith(".distcp") for name in names):
        return "a folder of torch.distributed.checkpoint without its .metadata, which is written last: it is not whole"
    if "saved_model.pb" in names or "checkpoint" in names or any(name.endswith(".ckpt.index") for name in names):
        return f"a folder of {_TENSORFLOW}"
    return None


def _in_archive(path: Path) -> str | None:
    try:
        with ZipFile(path) as archive:
            names = {name.rpartition("/")[2]: name for name in archive.namelist()}
    except (OSError, ValueError, BadZipFile):
        return None  # an incomplete zip: its reader reports it
    if "archive_format" in names or "serialized_exported_program.json" in names:
        return _EXPORTED
    if "model.weights.h5" in names:
        return _KERAS
    if "data.pkl" not in names and not any(name.endswith(".npy") for name in names):
        return _ZIP
    return None
