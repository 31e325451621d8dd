"""Names: those of the original's statements, read from its source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from port.translation.ir import syntax
from port.translation.ir.expr import code
from port.translation.ir.graph import Value
from port.translation.ir.source_location import SourceLocation
from port.translation.structure.inline_dce import Made
from port.translation.structure.name_hints import hints, plain_name
from port.translation.structure.source_map import Statement, statement_at

SOURCE = """\
import torch


def forward(self, x, pair):
    identity = x
    # widened first
    # then squeezed
    out = self.conv(
        x,
    )
    q, (k, v) = pair
    out[:, 0] = 1
    out += identity
    self.kept = out
    for layer in self.layers:
        out = layer(out)
    if out is None:
        return q
    return out
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("original") / "model.py"
    path.write_text(SOURCE)
    return str(path)


def at(file: str, line: int) -> Statement:
    found = statement_at(SourceLocation(file, line))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("line", "targets"),
    [
        (5, "identity"),
        (8, "out"),
        (9, "out"),  # within the statement
        (11, ("q", ("k", "v"))),
        (12, "out"),  # a part of it is written to
        (13, "out"),
        (14, None),
        (19, None),
    ],
)
def test_what_a_line_assigns_to(file: str, line: int, targets: Any) -> None:
    assert at(file, line).targets == targets


def test_what_is_known_of_a_statement(file: str) -> None:
    statement = at(file, 9)
    assert statement.place == SourceLocation(file, 8)
    assert statement.names == {"self", "x", "out"}
    assert statement.comments == ("# widened first", "# then squeezed")
    assert statement.aliases == {"identity": "x"}
    assert statement.text == "out = self.conv(\n        x,\n    )"
    assert not statement.in_loop
    assert at(file, 16).in_loop
    assert at(file, 15).text == ""  # of what holds others the head alone is its own
    assert at(file, 17).place == SourceLocation(file, 17)


def test_where_there_is_no_statement(file: str, tmp_path: Path) -> None:
    assert statement_at(None) is None
    assert statement_at(SourceLocation(file, 2)) is None
    assert statement_at(SourceLocation(str(tmp_path / "none.py"), 1)) is None
    (tmp_path / "broken.py").write_text("def (")
    assert statement_at(SourceLocation(str(tmp_path / "broken.py"), 1)) is None


def item(results: Any, statement: Statement | None, expression: syntax.Expr | None = None, **more: Any) -> Made:
    """A value that `hints` names: the result of one step of a statement."""
    return Made(results, expression or syntax.Const(0), statement, **more)


def value(name: str) -> Value:
    return Value(name, (2,), "float32")


def test_the_last_step_of_a_statement_has_its_name(file: str) -> None:
    first, last, other = (
        item((value("a"),), at(file, 8)),
        item((value("b"),), at(file, 9)),
        item((value("c"),), at(file, 13)),
    )
    hints([first, last, other])
    assert (first.names, last.names, other.names) == ({}, {"b": "out"}, {"c": "out"})


def test_several_results_have_the_names_in_their_places(file: str) -> None:
    made = item((value("a"), (value("b"), value("c"))), at(file, 11))
    hints([made])
    assert made.names == {"a": "q", "b": "k", "c": "v"}


def test_in_a_loop_every_round_has_the_name(file: str) -> None:
    rounds = [item((value(f"v{k}"),), at(file, 16), syntax.Use(f"w{k}")) for k in range(3)]
    hints(rounds)
    assert [each.names for each in rounds] == [{f"v{k}": "out"} for k in range(3)]


def test_nothing_is_named_without_a_statement_or_by_a_name_that_the_source_needs(file: str, tmp_path: Path) -> None:
    (tmp_path / "reserved.py").write_text("jnp = f(x)\n")
    items = [
        item((value("a"),), None),
        item((value("b"),), at(file, 19)),
        item((value("c"),), at(str(tmp_path / "reserved.py"), 1)),
    ]
    hints(items)
    assert [each.names for each in items] == [{}, {}, {}]


PARTS = """\
def forward(self, x):
    outputs = self.layer(x)
    hidden = outputs[0]
    score = self.layer(x)["score"]
    left, right = self.layer(x)
    both = self.layer(x)
    first, second = both[0], both["second"]
    return lambda x: x + 1
"""


@pytest.mark.parametrize(
    ("line", "keys", "whole", "part"),
    [
        (2, (0,), "outputs", "hidden"),
        (2, (1,), "outputs", None),
        (4, ("score",), None, "score"),
        (4, ("other",), None, None),
        (5, (1,), None, "right"),
        (6, (0,), "both", None),
    ],
)
def test_what_a_call_gives_and_its_parts_have_their_names(
    line: int, keys: tuple[Any, ...], whole: str | None, part: str | None, tmp_path: Path
) -> None:
    file = str(tmp_path / "parts.py")
    (tmp_path / "parts.py").write_text(PARTS)
    call, taken = item(value("whole"), at(file, line)), item(value("part"), at(file, line), keys=keys)
    hints([call, taken])
    assert (call.names.get("whole"), taken.names.get("part")) == (whole, part)


def test_a_lambda_does_not_make_what_its_statement_is_called(tmp_path: Path) -> None:
    (tmp_path / "swish.py").write_text("swish = lambda x: x * sigmoid(x)\n")
    assert at(str(tmp_path / "swish.py"), 1).targets is None


TWO_PARTS = """\
def forward(self, x):
    q, k = self.q(x), self.k(x).relu()
    a, b = self.pair(x)
    return q, k, a, b
"""


def test_each_part_of_a_tuple_has_its_name(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(TWO_PARTS)
    statement = at(str(path), 2)
    assert statement.is_of_parts and not at(str(path), 3).is_of_parts
    values = {name: Value(name, (2,), "float32") for name in ("one", "inner", "other")}
    one = Made(values["one"], syntax.Call(syntax.Attr("q"), (syntax.Use("x"),)), statement)
    inner = Made(values["inner"], syntax.Call(syntax.Attr("k"), (syntax.Use("x"),)), statement)
    other = Made(values["other"], syntax.Call(syntax.Name("relu"), (syntax.Use("inner"),)), statement)
    hints([one, inner, other])
    assert (one.names, inner.names, other.names) == ({"one": "q"}, {}, {"other": "k"})
    # Of more results than names none is named.
    more = [Made(value, syntax.Call(syntax.Attr("q"), (syntax.Use("x"),)), statement) for value in values.values()]
    hints(more)
    assert all(not item.names for item in more)


MAKER = """\
def shifted(by):
    def inner(x):
        return x + by

    return inner


def moved(x, by):
    return x + by


def forward(x, by):
    function = shifted(by.expand(3, -1))
    y = moved(x, by.expand(3, -1))
    return function(y)
"""


def test_what_a_function_is_made_with_is_not_the_function(tmp_path: Path) -> None:
    path = tmp_path / "makes.py"
    path.write_text(MAKER)
    assert at(str(path), 13).targets is None
    assert at(str(path), 14).targets == "y"


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("jnp.broadcast_to(mask, (2, 3))", "broadcast"),
        ("jnp.expand_dims(jnp.take(x, i), 0)", "expanded"),
        ("x.reshape(2, -1)", "reshaped"),
        ("jnp.cos(angle)", "cos"),
        ("x + 1", "value"),
    ],
)
def test_what_has_no_name_is_called_by_what_was_done_to_it(expression: str, name: str) -> None:
    assert plain_name(code(expression)) == name
