"""Files and folders that are there whole or not at all."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from port.errors import BrokenWeights, UsageError
from port.weights.whole import whole


def may(_: Path) -> bool:
    return True


def write(path: Path, text: str, *, overwrite: bool = False) -> None:
    with whole(path, overwrite=overwrite, may_replace=may) as temporary:
        temporary.write_text(text)


def write_folder(path: Path, text: str, *, fails: bool = False) -> None:
    with whole(path, overwrite=True, may_replace=may) as temporary:
        temporary.mkdir()
        (temporary / "part").write_text(text)
        if fails:
            raise OSError(28, "No space left on device")
        (temporary / "rest").write_text(text)


def test_nothing_is_seen_before_the_end(tmp_path: Path) -> None:
    with whole(tmp_path / "new" / "w", overwrite=False, may_replace=may) as temporary:
        temporary.write_text("all")
        assert not (tmp_path / "new" / "w").exists()
        assert temporary.name.startswith(".")
    assert os.listdir(tmp_path / "new") == ["w"]


def test_what_is_there_is_kept_unless_said_otherwise(tmp_path: Path) -> None:
    write(tmp_path / "w", "old")
    with pytest.raises(UsageError, match="is there already"):
        write(tmp_path / "w", "new")
    assert (tmp_path / "w").read_text() == "old"
    write(tmp_path / "w", "new", overwrite=True)
    assert (tmp_path / "w").read_text() == "new"
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="is there already"):
        write(tmp_path / "dangling", "new")


def test_a_folder_replaces_a_folder(tmp_path: Path) -> None:
    write_folder(tmp_path / "w", "old")
    (tmp_path / "w" / "more").touch()
    write_folder(tmp_path / "w", "new")
    assert {path.name: path.read_text() for path in (tmp_path / "w").iterdir()} == {"part": "new", "rest": "new"}
    assert os.listdir(tmp_path) == ["w"]


def test_a_link_to_a_folder_is_replaced_and_the_folder_stays(tmp_path: Path) -> None:
    write_folder(tmp_path / "w", "old")
    (tmp_path / "link").symlink_to(tmp_path / "w")
    write_folder(tmp_path / "link", "new")
    assert (tmp_path / "link" / "part").read_text() == "new" and (tmp_path / "w" / "part").read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["link", "w"]


def test_an_error_leaves_what_was_there(tmp_path: Path) -> None:
    write_folder(tmp_path / "w", "old")
    with pytest.raises(BrokenWeights, match=r"w: No space left on device"):
        write_folder(tmp_path / "w", "new", fails=True)
    assert (tmp_path / "w" / "rest").read_text() == "old"
    assert os.listdir(tmp_path) == ["w"]


def test_a_rename_that_fails_puts_the_old_folder_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_folder(tmp_path / "w", "old")
    rename, times = os.rename, []

    def fail_the_second(*paths: Path) -> None:
        times.append(paths)
        if len(times) == 2:
            raise OSError("no")
        rename(*paths)

    monkeypatch.setattr(os, "rename", fail_the_second)
    with pytest.raises(BrokenWeights, match="w: no"):
        write_folder(tmp_path / "w", "new")
    assert (tmp_path / "w" / "rest").read_text() == "old"
    assert os.listdir(tmp_path) == ["w"]


def test_a_folder_that_is_none_of_ours_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter").touch()
    with (
        pytest.raises(UsageError, match="not one that the weights may replace"),
        whole(tmp_path / "thesis", overwrite=True, may_replace=lambda _: False),
    ):
        raise AssertionError
    assert os.listdir(tmp_path / "thesis") == ["chapter"]


def test_a_pipe_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for name in ("pipe", "link"):
        with pytest.raises(UsageError, match=f"{name} is neither a file nor a folder, but a device, a pipe or"):
            write(tmp_path / name, "all", overwrite=True)
    assert (tmp_path / "pipe").is_fifo() and (tmp_path / "link").is_symlink()


def test_the_option_is_named_only_where_there_is_one(tmp_path: Path) -> None:
    write(tmp_path / "w", "old")
    for can, said in ((False, "choose another name"), (True, "or replace it with --overwrite (overwrite=True)")):
        with (
            pytest.raises(UsageError, match=f"{re.escape(said)}$"),
            whole(tmp_path / "w", overwrite=False, may_replace=may, can_overwrite=can),
        ):
            raise AssertionError


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_name_that_is_too_long(tmp_path: Path, overwrite: bool) -> None:
    with pytest.raises(UsageError, match=r"to wwww.*…: the name is too long\. Choose a shorter one"):
        write(tmp_path / ("w" * 300), "all", overwrite=overwrite)
    assert not os.listdir(tmp_path)


def test_a_long_name(tmp_path: Path) -> None:
    write(tmp_path / ("w" * 250), "all")
    assert os.listdir(tmp_path) == ["w" * 250]


def test_a_place_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BrokenWeights, match=r"the weights cannot be written to .*w: .*file is a file, not a folder"):
        write(tmp_path / "file" / "w", "all")
