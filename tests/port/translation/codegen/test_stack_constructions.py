"""Constructors of stacks: in place of the list, or at the constructor's end."""

from __future__ import annotations

from port.translation.codegen.stack_constructions import with_stacks_kept, with_stacks_made
from port.translation.codegen.statements import text_of
from port.translation.ir import syntax
from port.translation.ir.expr import code
from port.translation.structure.layer_stack import LayerStack

LIST, SEQUENTIAL = code("flax.nnx.List"), code("flax.nnx.Sequential")
LAYERS = LayerStack("Net", code("self.layers"))


def kept(text: str, stack: LayerStack = LAYERS, parts: tuple[syntax.Expr, ...] = (LIST, SEQUENTIAL)) -> str:
    given = syntax.FunctionDef("__init__", (), (syntax.Lines(text, parts),))
    return "\n".join(line.strip() for line in text_of(*with_stacks_kept([given], [stack])).strip().splitlines()[1:])


def made(text: str, stack: LayerStack = LAYERS) -> str:
    attributes, later = with_stacks_made({"layers": code(text)}, [stack])
    return "\n".join([syntax.source(attributes["layers"]), *map(syntax.source, later)])


def test_in_the_original_s_words() -> None:
    assert kept("self.layers = _part0_([f(é) for é in n])  # é") == (
        "self.layers = port.nn.stacked([f(é) for é in n])  # é"
    )
    assert kept("self.layers = _part1_(*layers)") == "self.layers = port.nn.stacked(layers)"
    assert kept("self.layers = self._make(3)") == "self.layers = port.nn.stacked(self._make(3))"
    assert kept("self.layers = self._make(\n    3)", LayerStack("Net", code("self.layers"), 1, 2)) == (
        "self.layers = port.nn.partly_stacked(self._make(\n3), before=1, after=2)"
    )


def test_behind_what_is_done_to_the_list() -> None:
    last = "self.layers = port.nn.stacked(self.layers)"
    assert kept("self.layers = _part0_()\nself.layers.append(f())").splitlines()[-1] == last
    assert kept("for i in n:\n    setattr(self, i, f())").splitlines()[-1] == last
    held = LayerStack("Net", code('self.parts["layers"]'))
    again = "self.parts['layers'] = port.nn.stacked(self.parts['layers'])"
    assert kept("self.parts = f()", held).splitlines()[-1] == again
    assert made("nnx.List([a()])", held).splitlines()[-1] == again


def test_from_what_the_original_s_makes() -> None:
    assert made("nnx.List([B(**o) for _ in range(n)])") == "port.nn.stacked([B(**o) for _ in range(n)])"
    assert made("nnx.Sequential(B(n=3), B(n=3))") == "port.nn.stacked([B(n=3), B(n=3)])"
    assert made("nnx.Sequential(*[B() for _ in range(n)])") == "port.nn.stacked([B() for _ in range(n)])"


def test_calls_that_differ_by_numbers_are_one() -> None:
    assert made("nnx.List([B(n=d, p=0.5, **o), B(n=d, p=0.25, **o)])") == (
        "port.nn.stacked([B(n=d, p=p, **o) for p in (0.5, 0.25)])"
    )
    assert made("nnx.List([B(i=0), B(i=1), B(i=2)])") == "port.nn.stacked([B(i=i) for i in range(3)])"
    assert made("nnx.List([B(i=0, p=1.5), B(i=1, p=2.5)])") == (
        "port.nn.stacked([B(i=i, p=p) for i, p in ((0, 1.5), (1, 2.5))])"
    )
    # A name that stands for something else, and what is no number, stay as they are.
    for text in ("[B(n=p, p=1), B(n=p, p=2)]", "[B(n=a), B(n=b)]", "[B(n=1), C(n=2)]", "[B(n=1), B(m=2)]"):
        assert made(f"nnx.List({text})") == f"port.nn.stacked({text})"
