"""A function that both trains and evaluates, as one of its calls runs it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from port.scripts.writing.shared_function import calling_line, specialized

FUNCTION = """
def run(model, loader, phase, optimizer=None, log=True):
    training = phase == "train"
    log = log and training
    if training and unknown:
        optimizer.zero_grad()
    elif optimizer is None or unknown:
        evaluated()
    if not training:
        phase_name = "held out" if optimizer is None else "trained"
    for batch in loader:
        with guard():
            if optimizer is not None:
                optimizer.step()
            else:
                count()
        if unknown:
            kept()
            if training:
                left()
    if log:
        show()
"""


def of_call(call: str) -> str:
    (function,) = ast.parse(FUNCTION).body
    assert isinstance(function, ast.FunctionDef)
    called = ast.parse(call, mode="eval").body
    assert isinstance(called, ast.Call)
    names = [one.arg for one in function.args.args]
    given: dict[str, ast.expr] = {"optimizer": ast.Constant(None), "log": ast.Constant(True)}
    given |= dict(zip(names, called.args, strict=False))
    given |= {word.arg: word.value for word in called.keywords if word.arg}
    return "\n".join(ast.unparse(one) for one in specialized(function, given).body)


def test_conditions_that_constants_decide_are_decided() -> None:
    assert (
        of_call("run(model, test_loader, 'test')")
        == """\
training = phase == 'train'
log = log and training
evaluated()
phase_name = 'held out'
for batch in loader:
    with guard():
        count()
    if unknown:
        kept()
        pass
pass"""
    )


def test_what_no_constant_decides_stays() -> None:
    text = of_call("run(model, loader, phase, optimizer)")
    assert text == ast.unparse(ast.Module(ast.parse(FUNCTION).body[0].body, []))  # type: ignore[attr-defined]


def test_a_parameter_that_is_set_again_decides_nothing() -> None:
    """``log`` is: its first value is not its last one."""
    assert "if log:" in of_call("run(model, loader, 'train', log=False)")


def test_a_variable_that_is_set_under_a_condition_decides_nothing() -> None:
    (function,) = ast.parse("def f(x):\n    if x:\n        y = False\n    if y:\n        g()").body
    assert isinstance(function, ast.FunctionDef)
    assert ast.unparse(specialized(function, {})) == ast.unparse(function)


CALLS = """
def run(model, loader, optimizer=None):
    for batch in loader:
        step(batch)

def main():
    for epoch in range(9):
        run(model, train_loader, optimizer)
        run(model, loader=test_loader)
"""


@pytest.mark.parametrize(("loader", "line"), [("train_loader", 8), ("test_loader", 9), ("another", 3)])
def test_the_call_that_is_given_a_loader(loader: str, line: int, tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(CALLS)
    where = {"file": str(file), "line": 3, "function": "run", "text": "for batch in loader"}
    found = calling_line(ast.parse(CALLS), where, loader)
    assert (found["line"], found["function"]) == (line, "run" if line == 3 else "main")


def test_a_variable_that_a_loop_may_never_set_decides_nothing() -> None:
    (function,) = ast.parse(
        "def f(x):\n    while x:\n        if True:\n            y = False\n    if y:\n        g()"
    ).body
    assert isinstance(function, ast.FunctionDef)
    assert ast.unparse(specialized(function, {})).endswith("if y:\n        g()")
