"""A page replaces a page, and no other file."""

from __future__ import annotations

from pathlib import Path

import pytest

from port.errors import FolderExists, UsageError
from port.report import write_run_page
from port.report.page import check_page
from port.report.runs.page import write_runs_page


def test_a_new_page_and_one_that_is_there(tmp_path: Path, make_outcome) -> None:
    page = tmp_path / "run.html"
    check_page(page)
    write_run_page([make_outcome([2.0, 1.0], [2.0, 1.0])], page)
    assert '<meta name="generator" content="port">' in page.read_text("utf-8")[:300]
    check_page(page)
    write_run_page([make_outcome([2.0, 1.0], [2.0, 1.0])], page)


def test_a_page_of_an_earlier_version(tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    page.write_text("<main>…</main>\n<footer>Written by <code>port</code>. This file is self-contained.</footer>\n")
    check_page(page)


@pytest.mark.parametrize("name", ["notes.html", "empty.html", "folder.html"])
def test_any_other_file_stays(name: str, tmp_path: Path, make_outcome) -> None:
    (tmp_path / "notes.html").write_text("mine")
    (tmp_path / "empty.html").touch()
    (tmp_path / "folder.html").mkdir()
    said = f"{name} is there already, and is no page that port wrote: choose another name"
    with pytest.raises(FolderExists, match=said):
        check_page(tmp_path / name)
    with pytest.raises(FolderExists, match=said):
        write_run_page([make_outcome([2.0], [2.0])], tmp_path / name)
    with pytest.raises(FolderExists, match=said):
        write_runs_page([], tmp_path / name)
    assert (tmp_path / "notes.html").read_text() == "mine"


def test_a_name_of_another_kind(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"ends with \.html"):
        check_page(tmp_path / "page.txt")
