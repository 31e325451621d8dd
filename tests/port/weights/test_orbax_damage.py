"""A damaged Orbax folder: one sentence names the file, and nothing else is printed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from port.errors import BrokenWeights
from port.weights.mesh_cut import MeshCut
from port.weights.mesh_plan import MeshPlan
from port.weights.orbax_files import open_orbax
from port.weights.orbax_writing import write_orbax
from tests.port.weights.some_tensors import tensors_of

TEXTS = ("_METADATA", "_sharding", "_CHECKPOINT_METADATA")
FILES = (*TEXTS, "manifest.ocdbt")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("orbax") / "w"
    arrays = {"a.b": np.arange(8.0), "c": np.arange(40000.0)}
    shapes = {name: array.shape for name, array in arrays.items()}
    write_orbax(path, tensors_of(arrays), lambda: {"k": "v"}, MeshPlan.of(MeshCut({"fsdp": 4}), shapes, {}))
    return path


def without_folder(path: Path) -> None:
    shutil.rmtree(path / "d")


def halved(path: Path) -> None:
    for file in (path / "d").iterdir():
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def emptied(path: Path) -> None:
    for file in (path / "d").iterdir():
        file.write_bytes(b"")


def with_text(name: str, text: str) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        (path / name).write_text(text)

    return damage


def no_tree(path: Path) -> None:
    (path / "_METADATA").write_text(json.dumps({"use_zarr3": False}))


DAMAGES = {
    **{f"empty {name}": (with_text(name, ""), f"its file {name} is empty") for name in FILES},
    **{f"list in {name}": (with_text(name, "[]"), f"its file {name} is not a JSON object") for name in TEXTS},
    "list in the manifest": (with_text("manifest.ocdbt", "[]"), r"its file manifest\.ocdbt is not as orbax wrote it"),
    "no manifest": (lambda path: (path / "manifest.ocdbt").unlink(), r"its file manifest\.ocdbt is missing"),
    "no shardings": (with_text("_sharding", "{}"), "its file _sharding is not as orbax wrote it"),
    "no tree": (no_tree, "its file _METADATA has no tree_metadata"),
    "no d": (without_folder, "its file d/[0-9a-f]+ is missing"),
    "halved": (halved, "its file d/[0-9a-f]+ is not as orbax wrote it"),
    "emptied": (emptied, "its file d/[0-9a-f]+ is empty"),
}


@pytest.mark.parametrize(("damage", "said"), DAMAGES.values(), ids=DAMAGES)
def test_the_file_is_named(
    whole: Path, tmp_path: Path, damage: Callable[[Path], object], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "w"
    shutil.copytree(whole, path)
    damage(path)
    with pytest.raises(BrokenWeights, match=rf"w is damaged: {said}.*\. Copy the checkpoint again$") as raised:
        open_orbax(path)
    assert "\n" not in str(raised.value)
    assert not capfd.readouterr().err


def test_data_that_was_cut_short_is_found_when_it_is_read(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "w")
    for file in (tmp_path / "w").glob("ocdbt.process_*/d/*"):
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with open_orbax(tmp_path / "w") as checkpoint, pytest.raises(BrokenWeights, match="the data of c is not complete"):
        checkpoint.read("c")


def test_a_folder_of_any_name_is_read(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "a b%20#?ü")
    with open_orbax(tmp_path / "a b%20#?ü") as checkpoint:
        assert checkpoint.read("a.b").tolist() == list(range(8))


def test_a_checkpoint_without_the_file_of_the_whole_is_read(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "w")
    (tmp_path / "w" / "_CHECKPOINT_METADATA").unlink()
    with open_orbax(tmp_path / "w") as checkpoint:
        assert set(checkpoint.tensors) == {"a.b", "c"} and not checkpoint.metadata
