"""The site as a folder: whole or not at all, and every link in it leads somewhere."""

from __future__ import annotations

import html
import json
import os
import re

import pytest

from port.errors import UsageError
from port.lessons import lessons
from port.pairs.notes import NOTES
from port.report.site import reading_of_lesson, write_site, writing


@pytest.fixture(scope="module")
def readings():
    return [reading_of_lesson(lesson) for lesson in lessons()]


@pytest.fixture(scope="module")
def site(readings, tmp_path_factory):
    folder = tmp_path_factory.mktemp("written") / "a" / "site"
    assert write_site(readings, folder) == folder / "index.html"
    return folder


@pytest.mark.sweep
def test_every_page_is_there(site, readings):
    assert {path.name for path in (site / "lessons").iterdir()} == {f"{lesson.name}.html" for lesson in lessons()}
    assert {path.name for path in site.iterdir() if path.is_file()} == {
        *("index.html", "differences.html", "tutorials.html", "cheat_sheet.html"),
        *("style.css", "site.js", "search_index.js", "site.json"),
    }
    index = (site / "index.html").read_text("utf-8")
    assert [re.search(rf'href="{reading.path}"', index) is not None for reading in readings] == [True] * len(readings)
    assert [path.name for path in site.parent.iterdir()] == ["site"]  # nothing is left beside it


@pytest.mark.sweep
def test_every_link_leads_somewhere(site):
    text = {path: path.read_text("utf-8") for path in site.rglob("*.html")}
    anchors = {path.resolve(): set(re.findall(r'\bid="([^"]*)"', page)) for path, page in text.items()}
    checked = 0
    for path, page in text.items():
        for link in map(html.unescape, re.findall(r'\b(?:href|src)="([^"]*)"', page)):
            target, _, anchor = link.partition("#")
            if link.startswith("data:"):
                continue
            there = (path.parent / target).resolve() if target else path.resolve()
            assert there.is_file(), (path, link)
            assert not anchor or anchor in anchors[there], (path, link)
            checked += 1
    assert checked > 5000


@pytest.mark.sweep
def test_the_differences_page_says_every_note(site):
    page = html.unescape(re.sub(r"<[^<>]*>", "", (site / "differences.html").read_text("utf-8")))
    for note in NOTES:
        for said in (note.title, note.torch, note.jax, note.remedy, *note.tests):
            assert said.replace("`", "") in page.replace("`", ""), note.id


@pytest.mark.sweep
def test_the_search_index_leads_to_every_line(site, readings):
    index = (site / "search_index.js").read_text("utf-8")
    rows = json.loads(index.removeprefix("const SEARCH_INDEX = ").removesuffix(";\n"))
    links = {link for _, _, _, link in rows}
    assert any("ModuleList" in title for _, title, _, _ in rows)  # which an old tutorial's row speaks of
    for reading in readings:
        for side, source in zip(("torch", "jax"), reading.sources, strict=True):
            said = [number for number, line in enumerate(source.lines, 1) if line.strip()]
            assert {f"{reading.path}#{side}-{number}" for number in said} <= links
    assert rows == sorted(rows, key=lambda row: row[0])
    assert any(link == "guides/move_a_model.html" for link in links)
    assert any(
        title == "port.nn.BatchNorm" and link.startswith("reference/port.nn.html#") for _, title, _, link in rows
    )
    assert any("fully_shard" in title and link.startswith("guides/") for _, title, _, link in rows)


@pytest.mark.sweep
def test_nothing_is_asked_of_the_network(site):
    for path in site.rglob("*"):
        if path.is_file():
            text = path.read_text("utf-8")
            shown = re.sub(r"<code.*?</code>", "", text, flags=re.S) if path.suffix == ".html" else text
            if path.suffix == ".html":  # a text may speak of an address, or link to it; nothing is loaded from one
                assert not re.search(r"<(?!a )[^<>]*https?://|@import|url\(", shown), path
            elif path.name != "search_index.js":
                assert not re.search(r"https?://|@import|url\(", shown), path


@pytest.fixture
def few_pages(monkeypatch):
    """In place of a whole site, a page for each reading."""

    def pages(readings):
        yield "index.html", "first"
        for reading in readings:
            yield reading.path, reading.name

    monkeypatch.setattr(writing, "pages", pages)


@pytest.mark.usefixtures("few_pages")
def test_an_earlier_site_is_replaced(tmp_path, readings):
    folder = tmp_path / "site"
    write_site(readings[:2], folder)
    write_site(readings[:1], folder)
    assert [path.name for path in (folder / "lessons").iterdir()] == [f"{readings[0].name}.html"]
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


@pytest.mark.usefixtures("few_pages")
def test_what_is_not_ours_stays_where_it_is(tmp_path, readings):
    folder = tmp_path / "site"
    folder.mkdir(mode=0o755)
    write_site(readings[:2], folder)
    (folder / "CNAME").write_text("mine")
    (folder / "lessons" / "mine.html").write_text("mine")
    before = folder.stat().st_ino
    write_site(readings[:1], folder)
    assert folder.stat().st_ino == before  # a shell may stand in it, or a disk be mounted there
    assert (folder / "CNAME").read_text() == (folder / "lessons" / "mine.html").read_text() == "mine"
    assert not (folder / readings[1].path).exists()


@pytest.mark.usefixtures("few_pages")
def test_a_list_of_files_cannot_lead_out_of_the_folder(tmp_path, readings):
    folder = tmp_path / "site"
    write_site(readings[:1], folder)
    outside = tmp_path / "outside.html"
    outside.write_text("mine")
    (folder / "site.json").write_text(
        json.dumps({"files": ["../outside.html", str(outside), "a/../../outside.html", 3]})
    )
    write_site(readings[:1], folder)
    assert outside.read_text() == "mine"


def test_other_things_are_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="holds other files"):
        write_site([], tmp_path)
    with pytest.raises(UsageError, match="is a file"):
        write_site([], tmp_path / "mine.txt")
    with pytest.raises(UsageError, match="cannot be written"):
        write_site([], tmp_path / "mine.txt" / "site")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.usefixtures("few_pages")
def test_half_a_site_is_none(tmp_path, readings, monkeypatch):
    folder = tmp_path / "site"
    write_site(readings[:1], folder)
    before = {path: os.stat(path).st_mtime_ns for path in folder.rglob("*") if path.is_file()}

    def broken(readings):
        yield "index.html", "half"
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writing, "pages", broken)
    with pytest.raises(UsageError, match="No space left on device"):
        write_site(readings[:1], folder)
    assert {path: os.stat(path).st_mtime_ns for path in folder.rglob("*") if path.is_file()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["site"]
