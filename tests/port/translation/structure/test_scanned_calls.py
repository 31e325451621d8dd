"""Loops over stacks, and calls of stacks, become scans of a one-layer function."""

from __future__ import annotations

import pytest

from port.translation.codegen.statements import text_of
from port.translation.ir import syntax
from port.translation.ir.expr import code
from port.translation.structure.layer_stack import LayerStack
from port.translation.structure.scanned_calls import CannotScan, with_scans
from port.translation.structure.written_body import Body

from ..statements_read import statements

HELD = code("self.layers")
LIFTED = "@nnx.scan(in_axes=(0, nnx.Carry), out_axes=nnx.Carry)\n"


def scanned(text: str, *parameters: str, before: int = 0, after: int = 0) -> str:
    *first, last = statements(text)
    body = Body(parameters or ("x",), tuple(first), last.value if isinstance(last, syntax.Return) else None)
    made = with_scans(body, [LayerStack("Net", HELD, before, after)], {HELD: "Block"})
    returned = () if made.returns is None else (syntax.Return(made.returns),)
    return "\n".join(line for line in text_of(*made.statements, *returned).splitlines() if line.strip())


def test_what_a_round_makes_for_the_next_is_carried_and_all_else_is_the_rounds_own() -> None:
    assert scanned("for layer in self.layers:\n    y = layer(x, z)\n    x = x + y\nreturn x", "x", "z") == (
        LIFTED + "def step(layer: Block, x: jax.Array) -> jax.Array:\n    y = layer(x, z)\n    return x + y\n"
        "x = step(self.layers, x)\nreturn x"
    )


def test_several_values_are_carried_together_by_names_that_are_free() -> None:
    text = "step = x\nfor layer in self.layers:\n    x, carry = layer(x)\n    y = y + carry\nreturn x + y + step"
    assert scanned(text, "x", "y") == (
        "step = x\n" + LIFTED + "def step2(layer: Block, carry2: Any) -> Any:\n    x, y = carry2\n"
        "    x, carry = layer(x)\n    y = y + carry\n    return x, y\nx, y = step2(self.layers, (x, y))\n"
        "return x + y + step"
    )


def test_layers_that_are_no_stack_are_called_before_and_behind_it() -> None:
    text = "for layer in self.layers:\n    x = layer(x)\nreturn x"
    assert scanned(text, before=1, after=2) == (
        "for layer in self.layers[:1]:\n    x = layer(x)\n"
        + LIFTED
        + "def step(layer: Block, x: jax.Array) -> jax.Array:\n    return layer(x)\nx = step(self.layers[1], x)\n"
        "for layer in self.layers[2:]:\n    x = layer(x)\nreturn x"
    )
    behind = "x, b = self.layers[0](x)\nfor layer in self.layers[1:]:\n    x = layer(x, b)\nreturn x"
    assert scanned(behind, before=1).splitlines()[0] == "x, b = self.layers[0](x)"
    assert scanned(behind, before=1).splitlines()[-2:] == ["x = step(self.layers[1], x)", "return x"]


def test_a_sequential_that_is_called() -> None:
    step = LIFTED + "def step(layer: Block, x: jax.Array) -> jax.Array:\n    return layer(x)\n"
    assert scanned("return self.head(self.layers(x))") == step + "return self.head(step(self.layers, x))"
    assert scanned("return self.layers(x)", before=1, after=1) == (
        step + "return self.layers[-1](step(self.layers[1], self.layers[0](x)))"
    )
    inside = scanned("y = x\nif a:\n    y = self.layers(x)\nreturn y", "x", "a").splitlines()
    assert inside[2:4] == ["    " + LIFTED.strip(), "    def step(layer: Block, x: jax.Array) -> jax.Array:"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("for layer in self.layers:\n    x = layer(x)\n    xs.append(x)\nreturn x", "has a side effect"),
        ("for layer in self.layers:\n    x = layer(x)\n    self.last = x\nreturn x", "changes an object"),
        ("for layer in self.layers:\n    y = layer(x)\nreturn y", "y is only defined after the first iteration"),
        ("for layer in self.layers:\n    x = layer(x)\nreturn layer", "the last layer is read after the loop"),
        ("for layer in self.layers:\n    y = layer(x)\nreturn x", "its iterations compute nothing"),
    ],
)
def test_loops_that_are_no_scan(text: str, why: str) -> None:
    with pytest.raises(CannotScan, match=why):
        scanned(text, "x", "xs")
