"""Both columns in a terminal: nothing lost at any width, nothing that it obeys, colours only where they are wanted."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from port.lessons import Alignment, align, find_lesson, print_alignment, source_of, whole_width
from port.lessons.folding import fold
from port.visible import visible

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
COLOUR = re.compile(r"\x1b\[(\d+;)*(3\d|4\d|9\d|10\d)(;\d+)*m")
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\ufe0f"), max_size=200)


def printed(alignment: Alignment, width: int, **options) -> str:
    """What arrives at the other end; without options that is no terminal."""
    console = Console(record=True, width=width, file=io.StringIO(), **options)
    print_alignment(alignment, console)
    sent = console.file.getvalue()
    assert ESCAPE.sub("", sent) == console.export_text()
    return sent


def columns(text: str, alignment: Alignment, width: int) -> list[dict[int, str]]:
    """The text of each numbered line, left and right, as they were printed; without blanks, since lines are folded."""
    gutters = [len(str(len(source.lines))) for source in (alignment.left, alignment.right)]
    column = max((width - sum(gutters) - 5) // 2, 8)
    found: list[dict[int, str]] = [{}, {}]
    current = [0, 0]
    for line in text.splitlines()[len(alignment.remarks) : -1]:
        cut = _cut(line, gutters[0] + 1 + column)
        sides = [cut[0], cut[1][3:]]
        for side, its in enumerate(sides):
            number, rest = its[: gutters[side]].strip(), its[gutters[side] + 1 :]
            current[side] = int(number) if number else current[side]
            if current[side]:  # not the names above
                found[side][current[side]] = found[side].get(current[side], "") + "".join(rest.split())
    return found


def _cut(line: str, cells: int) -> tuple[str, str]:
    for place in range(len(line) + 1):
        if cell_len(line[:place]) >= cells:
            return line[:place], line[place:]
    return line, ""


def shown(lines: tuple[str, ...]) -> dict[int, str]:
    return {number: "".join(visible(line).split()) for number, line in enumerate(lines, start=1)}


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("name", ["train", "script", "parallel"])
def test_nothing_of_a_lesson_is_lost_and_no_line_is_too_wide(name, width):
    alignment = align(*find_lesson(name).sources())
    text = printed(alignment, width)
    assert columns(text, alignment, width) == [shown(alignment.left.lines), shown(alignment.right.lines)]
    assert max(map(cell_len, text.splitlines()[:-1])) <= width
    assert f"{alignment.left.name}" in text or width < 80


def test_a_terminal_of_80_columns():
    left = "import torch\n\nmodel = Net()\nloss = cross_entropy(model(images), labels).mean()\nloss.backward()\n"
    right = "import jax\n\nmodel = Net()\nloss, gradients = jax.value_and_grad(cross_entropy)(model(images), labels)\n"
    text = printed(align(source_of(left, "a.py"), source_of(right, "b.py")), 80)
    assert text == (
        "  a.py                                     b.py\n"
        "1 import torch                         | 1 import jax\n"
        "2                                        2\n"
        "3 model = Net()                          3 model = Net()\n"
        "4 loss = cross_entropy(model(images),  | 4 loss, gradients =\n"
        "      labels).mean()                   |       jax.value_and_grad(\n"
        "                                       |       cross_entropy)(model(images),\n"
        "                                       |       labels)\n"
        "5 loss.backward()                      <\n"
        "lines: 2 equal, | 2 changed, < 1 only on the left, > 0 only on the right\n"
    )


@given(texts, st.integers(2, 60))
def test_a_folded_line_fits_and_is_whole(text, width):
    line = visible(text)
    pieces = [piece.plain for piece in fold(Text(line), width)]
    assert all(cell_len(piece) <= width for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join(line.split())
    assert pieces[0] == line[: len(pieces[0])]


def test_a_line_is_folded_behind_words():
    line = Text("    loss = cross_entropy(model(images), labels)")
    assert [piece.plain for piece in fold(line, 32)] == ["    loss = cross_entropy(model(", "        images), labels)"]
    assert [piece.plain for piece in fold(Text("x" * 20), 8)] == ["x" * 8, "   xxxxx", "   xxxxx", "   xx"]


@given(texts)
def test_what_is_visible_holds_nothing_that_a_terminal_obeys(text):
    assert visible(text).isprintable()
    assert visible(text, "ascii").isascii()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[31mred\x1b]0;title\x07", r"\x1b[31mred\x1b]0;title\x07"),
        ("\x9b31m\x7f\x08", r"\x9b31m\x7f\x08"),
        ("# \u202e reversed \u2066 \u200b", r"# \u202e reversed \u2066 \u200b"),
        ("a\tb\t\tc", "a   b       c"),
        ("64 → 128, é, 模型", "64 → 128, é, 模型"),
        ("\U000e0041 \u2028", r"\U000e0041 \u2028"),
    ],
)
def test_what_would_steer_a_terminal_is_written_out(text, expected):
    assert visible(text) == expected
    sources = source_of(f"# {text}\n# one more", "a\x1b[7m.py"), source_of(f"# {text}", "b.py")
    for options in ({"force_terminal": True, "color_system": "truecolor"}, {}):
        said = ESCAPE.sub("", printed(align(*sources), 200, **options))
        assert said.replace("\n", "").isprintable()
        assert r"a\x1b[7m.py" in said
        assert f"# {expected}" in said or "\t" in text


@pytest.mark.sweep
def test_a_line_of_100_000_characters_is_shown_to_its_end():
    line = "x = [" + ", ".join(str(n) for n in range(18_000)) + "]"
    assert len(line) > 100_000
    alignment = align(source_of(line, "a.py"), source_of("y" * 100_000, "b.py"))
    text = printed(alignment, 80, force_terminal=True, color_system="standard")
    said = columns(ESCAPE.sub("", text), alignment, 80)
    assert said == [{1: line.replace(" ", "")}, {1: "y" * 100_000}]
    assert whole_width(alignment) < 300


def test_colours_in_a_terminal_and_equal_lines_quiet():
    alignment = align(*find_lesson("train").sources())
    text = printed(alignment, 200, force_terminal=True, color_system="truecolor")
    lines = text.splitlines()
    quiet = [line for line in lines if "from __future__ import annotations" in ESCAPE.sub("", line)]
    assert len(quiet) == 1
    assert not COLOUR.search(quiet[0])
    alone = [line for line in lines if "class TrainState" in ESCAPE.sub("", line)]
    assert COLOUR.search(alone[0])
    assert "\x1b[1;36m > \x1b[0m" in alone[0]
    assert any(line.endswith("\x1b[1;31m <\x1b[0m") for line in lines)
    assert ESCAPE.sub("", text) == printed(alignment, 200)


def test_no_color_leaves_the_colours_out(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    alignment = align(*find_lesson("script").sources())
    text = printed(alignment, 80, force_terminal=True, color_system="truecolor")
    assert "\x1b[2m" in text
    assert not COLOUR.search(text)
    assert ESCAPE.sub("", text) == printed(alignment, 80)


def test_what_an_encoding_lacks_is_written_out():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    print_alignment(align(source_of("# 64 → 128", "a.py"), source_of("", "é.py")), Console(file=stream, width=80))
    stream.seek(0)
    said = stream.read()
    assert r"# 64 \u2192 128" in said
    assert r"\xe9.py is empty" in said


def test_other_files_than_python_are_not_coloured_as_python():
    sources = source_of("import torch\n", "a.txt"), source_of("import jax\n", "b.txt")
    text = printed(align(*sources), 80, force_terminal=True, color_system="truecolor")
    line = next(line for line in text.splitlines() if "import" in line)
    assert "import \x1b[4mtorch" in line  # underlined, as the word that the other has not; and no colour
