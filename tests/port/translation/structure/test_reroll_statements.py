"""Loops for statements that repeat: they do what the statements did."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from port.translation.codegen.statements import text_of
from port.translation.ir.expr import code
from port.translation.structure.reroll_statements import rolled

from ..statements_read import statements as statements_of

LENGTHS = {code("self.layers"): 3, code("self.gains"): 2, code("self.parts['blocks']"): 2}
HELD = SimpleNamespace(
    layers=[lambda x, k=k: 3 * x + k for k in (1, 2, 5)], gains=[lambda x, k=k: x - k for k in (7, 11)]
)


def loops(text: str, taken: tuple[str, ...] = ()) -> str:
    return text_of(*rolled(statements_of(text), LENGTHS, set(taken)))


@pytest.mark.parametrize(
    ("text", "short"),
    [
        (
            "x = self.layers[0](x)\nx = self.layers[1](x)\nx = self.layers[2](x)",
            "for layer in self.layers:\n    x = layer(x)",
        ),
        (
            "if wide:\n    x = self.layers[0](x)\n    x = self.layers[1](x)\nelse:\n    x = self.layers[1](x)",
            "if wide:\n    for layer in self.layers[:2]:\n        x = layer(x)\nelse:\n    x = self.layers[1](x)",
        ),
        ("x = self.layers[0](x)\nx = self.layers[1](x)", "for layer in self.layers[:2]:\n    x = layer(x)"),
        (
            "x = self.parts['blocks'][0](x)\nx = self.parts['blocks'][1](x)",
            "for block in self.parts['blocks']:\n    x = block(x)",
        ),
        (
            "y = self.gains[0](x)\nx = x + y\ny = self.gains[1](x)\nx = x + y\nreturn x",
            "for gain in self.gains:\n    y = gain(x)\n    x = x + y\nreturn x",
        ),
        ("x = self.layers[1](x)\nx = self.layers[2](x)", "x = self.layers[1](x)\nx = self.layers[2](x)"),
        ("x = self.layers[0](x)\ny = self.layers[1](x)", "x = self.layers[0](x)\ny = self.layers[1](x)"),
        ("x = self.others[0](x)\nx = self.others[1](x)", "x = self.others[0](x)\nx = self.others[1](x)"),
        ("x = self.layers[0](x)", "x = self.layers[0](x)"),
        (
            "x = self.layers[0](x) + self.layers[1](x)\nx = self.layers[1](x)",
            "x = self.layers[0](x) + self.layers[1](x)\nx = self.layers[1](x)",
        ),
        (
            "x = self.gains[0](self.layers[0](x))\nx = self.gains[1](self.layers[1](x))",
            "for gain, layer in zip(self.gains, self.layers):\n    x = gain(layer(x))",
        ),
        (
            "x = self.layers[0](x) + 0\nx = self.layers[1](x) + 1\nx = self.layers[2](x) + 2",
            "for i, layer in enumerate(self.layers):\n    x = layer(x) + i",
        ),
        (
            "x = self.layers[0](x) * 0\nx = self.layers[1](x) * 0",
            "for layer in self.layers[:2]:\n    x = layer(x) * 0",
        ),
        (
            "y = x * 0\nx = self.gains[0](self.layers[0](y))\ny = x * 1\nx = self.gains[1](self.layers[1](y))",
            "for i, (gain, layer) in enumerate(zip(self.gains, self.layers)):\n    y = x * i\n    x = gain(layer(y))",
        ),
        (
            "x = self.layers[0](x) + 0\nx = self.layers[1](x) + 2",
            "x = self.layers[0](x) + 0\nx = self.layers[1](x) + 2",
        ),
        (
            "x = self.layers[0](x, False)\nx = self.layers[1](x, True)",
            "x = self.layers[0](x, False)\nx = self.layers[1](x, True)",
        ),
        (
            "x = self.layers[0](x) + 0\nx = self.layers[1](x) + 1\nx = self.layers[2](x) + 3",
            "for i, layer in enumerate(self.layers[:2]):\n    x = layer(x) + i\nx = self.layers[2](x) + 3",
        ),
    ],
)
def test_what_repeats(text: str, short: str) -> None:
    assert loops(text) == short


def test_the_item_is_not_called_as_something_else_is() -> None:
    text = "x = self.gains[0](x)\nx = self.gains[1](x)"
    assert loops(text, ("gain",)).startswith("for gain_ in self.gains")
    assert loops(text, ("gain", "gain_")).startswith("for gain__ in self.gains")
    assert loops("i = self.gains[0](0)\ni = self.gains[1](1)", ("i",)).startswith(
        "for i_, gain in enumerate(self.gains)"
    )


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_in_a_branch_the_only_round_is_a_loop_as_several_are(rounds: int) -> None:
    """What stands before the loop stays before it."""

    def branches(calls: str) -> str:
        first = "    x, bias = self.first(x, MASK)\n"
        return f"if masked:\n{first}{calls}".replace("MASK", "mask") + f"else:\n{first}{calls}".replace("MASK", "None")

    text = branches("".join(f"    x = self.layers[{n}](x, MASK, bias)\n" for n in range(rounds)))
    short = branches("    for layer in self.layers:\n        x = layer(x, MASK, bias)\n")
    layers = code("self.layers")
    assert text_of(*rolled(statements_of(text), {layers: rounds}, set(), [layers])) == short.rstrip()


def test_a_function_that_is_defined_is_no_round() -> None:
    text = "def step(x):\n    return self.layers[0](x)\n\nx = scan(step, x)"
    layers = code("self.layers")
    statements = statements_of(text)
    assert rolled(statements, {layers: 1}, set(), [layers]) == list(statements)
    (call,) = statements_of("x = self.layers[0](x)")
    assert rolled([call], {layers: 1}, set(), [layers]) != [call]


_STATEMENTS = st.lists(
    st.tuples(
        st.sampled_from(["x", "y"]),
        st.sampled_from(["layers", "gains"]),
        st.integers(0, 1),
        st.sampled_from(["x", "y"]),
    ).map(lambda parts: f"{parts[0]} = self.{parts[1]}[{parts[2]}]({parts[3]})")
    | st.tuples(st.sampled_from(["layers", "gains"]), st.integers(0, 2), st.integers(0, 2)).map(
        lambda parts: f"x = self.{parts[0]}[{parts[1] % 2}](y) * {parts[2]}"
    )
    | st.integers(0, 1).map(lambda place: f"y = self.gains[{place}](self.layers[{place}](x)) - {place}")
    | st.sampled_from(["x = x + y", "x = self.layers[2](x)"]),
    min_size=1,
    max_size=12,
)


def _done(text: str) -> tuple[Any, Any]:
    names = {"self": HELD, "x": 1, "y": 2}
    exec(text, names)
    return names["x"], names["y"]


@settings(deadline=None, max_examples=200)
@given(_STATEMENTS)
def test_loops_do_what_the_statements_did(statements: list[str]) -> None:
    text = "\n".join(statements)
    assert _done(loops(text)) == _done(text)
