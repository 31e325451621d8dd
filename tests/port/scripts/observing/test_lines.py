"""Where in the user's code something happens, and when its loop begins anew."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from port.scripts.observing import lines
from port.scripts.observing.lines import line_of, name_of, owner, user_frames, went_back
from port.scripts.observing.statements import added_in, is_in_loop_of, statement_line, statement_text

LOOP = (("a.py:main", 10, 4),)


@pytest.mark.parametrize(
    ("now", "is_back"),
    [
        ((("a.py:main", 8, 90),), True),
        ((("a.py:main", 10, 2),), True),  # a loop on one line
        ((("a.py:main", 11, 0),), False),  # what follows on the update
        ((("a.py:main", 10, 4), ("a.py:f", 1, 0)), False),  # within the update: a closure
        ((("a.py:main", 9, 0), ("a.py:f", 50, 0)), True),
        ((("b.py:main", 1, 0),), False),
    ],
)
def test_a_loop_begins_anew(now: tuple[tuple[str, int, int], ...], is_back: bool) -> None:
    assert went_back(LOOP, now) is is_back


def test_whose_code_a_file_is() -> None:
    assert owner(str(Path(torch.__file__).parent / "nn" / "functional.py")) == "torch"
    assert owner(str(Path(pytest.__file__))) == "library" and owner(subprocess.__file__) == "library"
    assert owner("<string>") == "library"
    assert owner(__file__) == "user"
    assert owner(sys.modules["port.scripts.observing.lines"].__file__ or "") == "ours"


def test_the_expression_that_is_executed() -> None:
    def asked() -> dict[str, object]:
        return line_of(user_frames()[1])

    first, told = 1, asked()
    both = [
        first,
        asked()["text"],
    ]
    assert told["text"] == "asked()" and told["function"].endswith("test_the_expression_that_is_executed")  # type: ignore[attr-defined]
    assert both[1] == "asked()"
    for _ in [head := asked()]:
        pass
    assert head["text"] == "asked()"


def test_the_variable_that_holds_an_object() -> None:
    frames = user_frames()
    tensor, batch = torch.ones(1), {"x": torch.zeros(1)}
    names = map(partial(name_of, frames=frames), (tensor, batch["x"], torch.ones(1)))
    assert list(names) == ["tensor", 'batch["x"]', None]


PACKAGE = """
def backward(see):
    see()

def clip(see):
    for model in (1, 2):
        pass
    see()

def fit(see):
    see()
    for epoch in range(2):
        pass

def step(see):
    while True:
        see()
        break

def last(see):
    see()

def another():
    for _ in range(2):
        pass
"""


@pytest.mark.parametrize("name", ["backward", "clip", "fit", "step", "last"])
def test_a_package_that_trains_has_a_loop(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In which it is, or which is to come: what only does one thing for a script has none."""
    file = tmp_path / "site-packages" / f"helper_{name}" / "helper.py"
    file.parent.mkdir(parents=True)
    file.write_text(PACKAGE, "utf-8")
    monkeypatch.setattr(lines, "_LOOPS", set())
    names: dict[str, Any] = {}
    exec(compile(PACKAGE, str(file), "exec"), names)
    names[name](lines.adopt_the_loop)
    assert lines.is_reported(str(file)) == (name in ("fit", "step"))


def test_a_statement_over_several_lines(tmp_path: Path) -> None:
    file = str(tmp_path / "a.py")
    Path(file).write_text(
        "x = f(  # a remark\n    1,\n    # another\n    2)\nfor a, b in zip(\n    c, d\n):\n    y = '#1'\n", "utf-8"
    )
    assert [statement_line(file, line) for line in range(1, 9)] == [1, 1, 1, 1, 5, 5, 5, 8]
    assert statement_text(file, 3) == "x = f( 1, 2)"
    assert statement_text(file, 6) == "for a, b in zip( c, d ):"
    assert statement_text(file, 8) == "y = '#1'"


@pytest.mark.parametrize(
    ("text", "added"),
    [
        ("total += loss * len( x )", "loss * len(x)"),
        ("total -= loss", None),
        ("sums['loss'] += loss", None),
        ("total + loss", None),
        ("total += (a long line that is cut …", None),
    ],
)
def test_what_a_statement_adds_up(text: str, added: str | None) -> None:
    assert added_in(text) == added


def test_whether_a_line_is_in_the_loop_of_another(tmp_path: Path) -> None:
    file = tmp_path / "loops.py"
    file.write_text("for a in b:\n    for c in d:\n        e\n    f\ng\n")
    assert [is_in_loop_of(str(file), line, 2) for line in range(1, 6)] == [False, True, True, False, False]
    assert [is_in_loop_of(str(file), line, 4) for line in range(1, 6)] == [True, True, True, True, False]
    assert not is_in_loop_of(str(file), 5, 5)
