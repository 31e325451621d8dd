"""The page of two sources: every line, opposite its twin, with an anchor that can be shared."""

from __future__ import annotations

import html
import re

from port.lessons import SourceText, find_lesson, source_of
from port.report.site import reading_of_files, reading_of_lesson
from port.visible import visible

TORCH = "import torch\n\n\nclass Net(nn.Module):\n    def forward(self, x):\n        return torch.relu(x)\n"
JAX = (
    "import jax\n\n\n# %% A title\nclass Net(nnx.Module):\n    def __call__(self, x):\n        return jax.nn.relu(x)\n"
)


def text_of(cell):
    return html.unescape(re.sub(r"<[^<>]*>", "", str(cell.html)))


def test_every_line_once_with_its_anchor():
    reading = reading_of_lesson(find_lesson("model"))
    rows = reading.rows(notes_at="../differences.html")
    for side, (name, source) in enumerate(zip(("torch", "jax"), reading.sources, strict=True)):
        cells = [row.cells[side] for row in rows if row.cells[side] is not None]
        assert [cell.anchor for cell in cells] == [f"{name}-{n}" for n in range(1, len(source.lines) + 1)]
        assert [text_of(cell) for cell in cells] == [visible(line) for line in source.lines]
    assert sum(reading.counts.values()) == len(rows)


def test_kinds_marks_and_jumps():
    reading = reading_of_files(source_of(TORCH, "a/mine.py"), source_of(JAX, "b/its.py"))
    assert reading.name == "mine.py ⇄ its.py"
    assert reading.path == "lessons/mine-py-its-py.html"
    rows = reading.rows(notes_at="")
    last = rows[-1]
    assert last.kind == "changed"
    assert "<mark>torch</mark>" in str(last.cells[0].html)
    assert "<mark>" in str(last.cells[1].html)
    # In the order of the rows; the title is the right one's alone.
    assert [(jump.name, jump.anchor, jump.depth) for jump in reading.jumps()] == [
        ("A title", "jax-4", 0),
        ("Net", "torch-4", 0),
        ("__call__", "torch-5", 1),
    ]
    only = [row for row in rows if row.kind == "only-right"]
    assert [text_of(row.cells[1]) for row in only] == ["# %% A title"]


def test_the_right_side_says_what_to_jump_to_where_the_left_does_not_parse():
    reading = reading_of_files(SourceText("a.py", ("def (",)), source_of(JAX, "b.py"))
    assert [jump.anchor for jump in reading.jumps()] == ["jax-4", "jax-5", "jax-6"]
    assert reading.jumps()[0].is_title


def test_a_text_that_is_no_python_is_shown_plain():
    reading = reading_of_files(source_of("return 1", "a.txt"), source_of("return 2", "b.txt"))
    (row,) = reading.rows(notes_at="")
    assert str(row.cells[0].html) == "return <mark>1</mark>"
