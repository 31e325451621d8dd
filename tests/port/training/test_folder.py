"""The run folder: new ones never collide, old ones are never written over unasked."""

from __future__ import annotations

import json

import pytest

from port.errors import FolderExists, UsageError
from port.training.folder import MARK, environment, make_run_folder, write_json


def test_two_runs_in_one_second_have_two_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("time.strftime", lambda form: "20260101-000000")
    folders = {make_run_folder(None, name="digits-mlp-sgd") for _ in range(3)}
    assert len(folders) == 3
    assert all(folder.is_dir() for folder in folders)


def test_an_empty_folder_is_taken(tmp_path):
    assert make_run_folder(tmp_path, name="x") == tmp_path


def test_what_is_there_stays(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / MARK).write_text("{}")
    with pytest.raises(FolderExists, match="--overwrite"):
        make_run_folder(tmp_path / "run", name="x")
    assert (tmp_path / "run" / MARK).exists()
    make_run_folder(tmp_path / "run", name="x", overwrite=True)
    assert not any((tmp_path / "run").iterdir())


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_file_in_the_way_is_refused(tmp_path, overwrite):
    (tmp_path / "run").write_text("a letter")
    with pytest.raises(FolderExists):
        make_run_folder(tmp_path / "run", name="x", overwrite=overwrite)
    with pytest.raises(UsageError):
        make_run_folder(tmp_path / "run" / "below", name="x")
    assert (tmp_path / "run").read_text() == "a letter"


def test_json_is_written_whole_or_not_at_all(tmp_path):
    write_json(tmp_path / "a.json", {"difference": float("nan"), "largest": [1.5, float("inf")], "path": tmp_path})
    read = json.loads((tmp_path / "a.json").read_text(), parse_constant=pytest.fail)  # strict JSON: no bare NaN
    assert read == {"difference": "NaN", "largest": [1.5, "Infinity"], "path": str(tmp_path)}

    class Unprintable:
        def __str__(self) -> str:
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_json(tmp_path / "a.json", {"x": Unprintable()})
    assert json.loads((tmp_path / "a.json").read_text()) == read
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_the_environment_names_versions():
    told = environment()
    assert told["packages"]["torch"][0].isdigit()
    assert told["python"].startswith("3.")
