"""Merged statements of several instances, and the conditions that distinguish the instances."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from port.translation.codegen.statements import text_of
from port.translation.ir import syntax
from port.translation.ir.expr import code, worth
from port.translation.structure.anti_unify import Differ, Holes
from port.translation.structure.class_merge import Argument, ClassForm, fold
from port.translation.structure.statement_merge import Conditions, merged_statements
from port.translation.structure.written_body import Body

from ..statements_read import statements as statements_of


def form(path: str, *statements: str, **flags: Any) -> ClassForm:
    """An instance: the body of its call, and the attributes of the original's module."""
    body = Body(("x",), tuple(statements_of("\n".join(statements))), syntax.Name("x"))
    return ClassForm(path, SimpleNamespace(**{"training": True, **flags}), {}, body)


def given(name: str, **values: str | None) -> Argument:
    """A module that only some instances receive."""
    made = {path: syntax.Const(None) if value is None else syntax.Name(value) for path, value in values.items()}
    return Argument(name, made, True)


def text(statements: list[syntax.Stmt]) -> str:
    return text_of(*statements)


def merged(*groups: list[ClassForm], modules: tuple[Argument, ...] = ()) -> tuple[str, Holes, list[Argument]]:
    holes, flags = Holes(), []  # type: ignore[var-annotated]
    statements = merged_statements(list(groups), Conditions(list(groups), list(modules), flags, holes), holes)
    return text(statements), holes, flags


def test_what_only_some_do_is_behind_the_module_that_they_are_given() -> None:
    made, _, _ = merged(
        [form("a", "y = x", "x = self.conv(x)", "x = x + y")],
        [form("b", "y = x", "x = self.conv(x)", "y = self.downsample(y)", "x = x + y")],
        modules=(given("downsample", a=None, b="Conv"),),
    )
    assert made == "y = x\nx = self.conv(x)\nif self.downsample is not None:\n    y = self.downsample(y)\nx = x + y"


def test_one_thing_or_the_other() -> None:
    made, _, _ = merged(
        [form("a", "y = x", "x = x + y")],
        [form("b", "y = self.downsample(x)", "x = x + y")],
        modules=(given("downsample", a=None, b="Conv"),),
    )
    assert "if self.downsample is" in made and "else:" in made
    assert made.endswith("x = x + y")


def test_a_flag_of_the_originals_own_tells_them_apart() -> None:
    made, _, flags = merged(
        [form("a", "x = f(x)", "x = g(x)", pre=True, _hidden=True)],
        [form("b", "x = f(x)", pre=False, _hidden=False)],
    )
    assert made == "x = f(x)\nif self.pre:\n    x = g(x)"
    assert [(flag.name, flag.kept) for flag in flags] == [("pre", True)]
    assert {path: worth(value) for path, value in flags[0].values.items()} == {"a": True, "b": False}


def test_a_rate_or_a_word_tells_them_apart() -> None:
    made, _, flags = merged(
        [form("a", "x = f(x)", rate=0.0), form("b", "x = f(x)", rate=0)],
        [form("c", "x = g(x)", "x = f(x)", rate=0.1), form("d", "x = g(x)", "x = f(x)", rate=0.2)],
    )
    assert made == "if self.rate > 0:\n    x = g(x)\nx = f(x)" and [flag.name for flag in flags] == ["rate"]
    made, _, _ = merged(
        [form("a", "x = f(x)", mode="add", n=1)],
        [form("b", "x = g(x)", "x = f(x)", mode="cat", n=2), form("c", "x = g(x)", "x = f(x)", mode="cat", n=3)],
    )
    assert made == "if self.mode == 'cat':\n    x = g(x)\nx = f(x)"


def test_a_number_that_an_instance_is_given_as_zero_tells_it_apart() -> None:
    forms = [
        form("a", "x = f(x)"),
        form("b", "x = self.drop(x)", "x = f(x)"),
        form("c", "x = self.drop(x)", "x = f(x)"),
    ]
    for made, rate in zip(forms, (0.0, 0.1, 0.2), strict=True):
        made.attributes["drop"] = code("Drop(rate=r)", r=rate)
    (cls,) = fold(forms, set())
    assert [argument.name for argument in cls.arguments] == ["drop_rate"] and cls.arguments[0].kept
    assert text(cls.body.statements if cls.body else []) == "if self.drop_rate > 0:\n    x = self.drop(x)\nx = f(x)"


def test_what_only_some_need_and_all_may_hold() -> None:
    forms = [form("a", "x = f(x)", rate=0.0), form("b", "x = x * g(self.rngs())", "x = f(x)", rate=0.3)]
    forms[1].attributes["rngs"] = syntax.Name("rngs")
    (cls,) = fold(forms, set())
    assert [argument.name for argument in cls.arguments] == ["rate"]  # and no second `rngs`
    assert {name: syntax.source(made) for name, made in cls.attributes.items()} == {"rngs": "rngs"}


def test_statements_behind_one_condition_stand_together() -> None:
    made, _, flags = merged(
        [form("a", "x = f(x)", "x = g(x)", "x = x.sum()", wide=False)],
        [form("b", "x = x.sum()", wide=True)],
    )
    assert made == "if not self.wide:\n    x = f(x)\n    x = g(x)\nx = x.sum()"
    assert len(flags) == 1


def test_numbers_that_differ_are_holes() -> None:
    made, holes, _ = merged([form("a", "x = x * 2"), form("b", "x = x * 3")])
    assert made == "x = x * <0>"
    assert [hole.values for hole in holes.found] == [(2, 3)]


def test_where_nothing_tells_them_apart() -> None:
    with pytest.raises(Differ):
        merged([form("a", "x = f(x)", "x = g(x)", n=1)], [form("b", "x = f(x)", n=2)])
    with pytest.raises(Differ):  # the mode is no property of an instance
        merged([form("a", "x = f(x)")], [form("b", "x = g(x)")])


def test_instances_that_do_different_things_are_different_classes() -> None:
    made = fold([form("a", "x = f(x)"), form("b", "x = g(x)"), form("c", "x = f(x)")], {"SimpleNamespace"})
    assert [(cls.name, cls.members) for cls in made] == [
        ("SimpleNamespace2", ("a", "c")),
        ("SimpleNamespace3", ("b",)),
    ]


def test_instances_that_a_flag_tells_apart_are_one_class() -> None:
    (made,) = fold([form("a", "x = f(x)", "x = 2 * x", pre=True), form("b", "x = f(x)", pre=False)], set())
    assert syntax.source(made.construction("a")) == "SimpleNamespace(pre=True, **options)"
    assert text(made.body.statements if made.body else []) == "x = f(x)\nif self.pre:\n    x = 2 * x"
