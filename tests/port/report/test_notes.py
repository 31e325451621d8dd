"""The tables of differences and of old tutorials, in a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from port.pairs.notes import NOTES, Note
from port.pairs.tutorials import OUTDATED
from port.report import print_notes, print_outdated


def printed(show, rows, *, width=120, encoding="utf-8"):
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    show(rows, Console(file=stream, width=width))
    stream.flush()
    return raw.getvalue().decode(encoding)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_every_note_is_there_within_the_width(width):
    text = printed(print_notes, NOTES, width=width)
    assert max(map(len, text.splitlines())) <= width
    squeezed = "".join(text.split())
    for note in NOTES:
        assert "".join(f"{note.id}{note.title}".split()) in squeezed
        for test in note.tests:
            assert test in squeezed


def test_every_old_tutorial_is_there():
    text = printed(print_outdated, OUTDATED)
    assert [line.split()[0] for line in text.splitlines() if line[:1].strip()] == [row.id for row in OUTDATED]
    squeezed = "".join(text.split())
    assert all("".join(row.happened.split()) in squeezed for row in OUTDATED)


def test_what_a_console_cannot_show_or_would_obey_is_written_out():
    odd = Note("X0", "an \x1b[31mescape", torch="−1", jax="[bold]×[/bold]", remedy="x", untested="no")
    text = printed(print_notes, [odd], encoding="ascii")
    assert "\x1b" not in text
    assert r"\x1b[31mescape" in text
    assert r"\u22121" in text
    assert r"[bold]\xd7[/bold]" in text
    assert "not tested: no" in text
