"""Reading files: line ends, and what is no text."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from port.errors import UsageError
from port.lessons import read_source, source_of


@given(st.lists(st.text(st.characters(exclude_characters="\r\n"))), st.sampled_from(["\n", "\r\n", "\r"]))
def test_lines_are_what_stands_between_the_ends(lines, end):
    source = source_of("".join(line + end for line in lines), "a.py")
    assert list(source.lines) == lines
    assert source.remarks == (() if lines else ("is empty",))


@pytest.mark.parametrize(
    ("text", "lines", "remark"),
    [
        ("a\nb", ("a", "b"), None),
        ("a\nb\n", ("a", "b"), None),
        ("\n", ("",), None),
        ("a\x0cb\x1c\u2028c", ("a\x0cb\x1c\u2028c",), None),
        ("a\r\nb\rc\n\nd", ("a", "b", "c", "", "d"), r"has mixed line endings (\n, \r, \r\n); they are not compared"),
        ("", (), "is empty"),
    ],
)
def test_line_ends(text, lines, remark):
    source = source_of(text, "a.py")
    assert source.lines == lines
    assert source.remarks == (() if remark is None else (remark,))


def test_a_byte_order_mark_is_no_text(tmp_path):
    (tmp_path / "a.py").write_bytes(b"\xef\xbb\xbfx = 1\n")
    source = read_source(tmp_path / "a.py")
    assert source.lines == ("x = 1",)
    assert source.name == str(tmp_path / "a.py")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"x\0y", "is binary"),
        ("x = 'é'".encode("utf-16"), "is binary"),
        (b"\x89PNG\r\n\x1a\n", "is not UTF-8: byte 0x89 in line 1"),
        ("x = 1\r\ny = 'é'\n".encode("latin-1"), "is not UTF-8: byte 0xe9 in line 2"),
        (b"x\ny\rz\xff", "is not UTF-8: byte 0xff in line 3"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path, data, why):
    path = tmp_path / "a.py"
    path.write_bytes(data)
    with pytest.raises(UsageError) as raised:
        read_source(path)
    assert f"{str(path)!r} {why}" in str(raised.value)


def test_what_is_no_file_is_refused(tmp_path):
    for path, why in [
        (tmp_path / "missing.py", "there is no file"),
        (tmp_path / "missing" / "a.py", "there is no file"),
        (tmp_path, "is a folder"),
        (tmp_path / ("x" * 3000), "cannot be read"),
        (Path("a\0b"), "cannot be read"),
    ]:
        with pytest.raises(UsageError, match=why):
            read_source(path)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_refused(tmp_path):
    (tmp_path / "a.py").write_text("x")
    (tmp_path / "a.py").chmod(0)
    with pytest.raises(UsageError, match="cannot be read: Permission denied"):
        read_source(tmp_path / "a.py")
