"""Lines break where ruff breaks them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from port.pairs.expression import Expression, Function, Reference
from port.pairs.layout import Brackets, Joined, written

HERE = Path(sys.executable).parent


def chained(*rates: float) -> Expression:
    return Expression("optax.chain", tuple(Expression("optax.scale", (rate,)) for rate in rates))


INJECTED = Expression(
    Expression(
        "optax.inject_hyperparams",
        (
            Function(
                ("learning_rate", "b1"),
                Expression("optax.sgd", (Reference("learning_rate"),), {"momentum": Reference("b1")}),
            ),
        ),
    ),
    (),
    {"learning_rate": Expression("port.transforms.one_cycle_lr", (0.1,), {"total_steps": 1000}), "b1": 0.9},
)
PIECES = [
    chained(0.5),
    chained(*(number / 8 for number in range(9))),
    INJECTED,
    Expression(
        "optax.adam", (), {"learning_rate": {"a": [1.0, 2.0, (3,)], "bcd": (0.25, 0.125)}, "b1": 0.9, "b2": 0.99}
    ),
    Expression("optax.chain", ([chained(0.5, 0.25), chained(0.125)],), {"milestones": list(range(20))}),
    Expression("optax.chain", (Function(("count",), chained(*(number / 16 for number in range(5)))),)),
]


@pytest.mark.parametrize("width", [120, 79, 60])
def test_ruff_changes_nothing(width: int) -> None:
    ruff = shutil.which("ruff", path=str(HERE)) or shutil.which("ruff")
    assert ruff is not None, "the extra 'test' brings ruff"
    source = "".join(piece.source(width=width) + "\n" for piece in PIECES)
    command = [ruff, "format", "--isolated", "--line-length", str(width), "-"]
    assert subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout == source
    # The test has teeth: what was broken for another width is put right.
    other = "".join(piece.source(width=width // 2) + "\n" for piece in PIECES)
    assert subprocess.run(command, input=other, capture_output=True, text=True, check=True).stdout != other


def test_a_line_as_long_as_the_width_is_not_broken() -> None:
    call = Joined(("name", Brackets("(", ("first", "second"), ")", together=True)))
    assert written(call, 19) == "name(first, second)"
    assert written(call, 18) == "name(\n    first, second\n)"
    assert written(call, 16) == "name(\n    first,\n    second,\n)"


def test_an_indented_source_comes_back_to_its_column() -> None:
    call = Joined(("name", Brackets("(", ("first", "second"), ")", together=True)))
    assert written(call, 20, 4) == "name(\n        first,\n        second,\n    )"


def test_empty_brackets_and_long_names_stay_whole() -> None:
    assert written(Brackets("(", (), ")"), 1) == "()"
    assert written("name", 1) == "name"
