"""Small graphs, written by hand."""

from __future__ import annotations

from torch import nn

from port.translation.ir.graph import Carried, Graph, Loop, Operation, Sliced, Stacked, Step, Value
from port.translation.ir.module_calls import ScopeEnter, ScopeExit
from port.translation.ir.source_location import SourceLocation

HERE = SourceLocation("net.py", 3)


def value(name: str, *shape: int | str, dtype: str = "float32") -> Value:
    return Value(name, shape, dtype)


def operation(operator: str, result: Value, **arguments: object) -> Operation:
    return Operation(operator, arguments, (result,), several=False, place=HERE)


X, W, H, Y = value("x", "n", 3), value("w", 5, 3), value("h", "n", 5), value("y", "n", 5)


def straight(*steps: Step) -> Graph:
    """A model of two operators; or of other steps in their place."""
    inside = steps or (
        operation("aten.linear.default", H, input=X, weight=W),
        operation("aten.relu.default", Y, self=H),
    )
    model = nn.Linear(3, 5)
    return Graph(
        inputs=(X,),
        held={W: "weight"},
        constants={},
        steps=(ScopeEnter("", 0, model, {"x": X}, HERE), *inside, ScopeExit("", 0, Y)),
        guards=("n >= 2",),
    )


def looped(first: Value | None = None) -> Graph:
    """The sum of a sequence's slices, and all partial sums."""
    whole, zero = value("x", 7, "n", 5), value("zero", "n", 5)
    inside, carried, following = value("x_t", "n", 5), value("s", "n", 5), value("s_t", "n", 5)
    last, sums = value("last", "n", 5), value("sums", 7, "n", 5)
    loop = Loop(
        length=7,
        reverse=False,
        stateful=False,
        carried=(Carried(first or zero, carried, following, last),),
        sliced=(Sliced(whole, 0, inside),),
        stacked=(Stacked(following, 0, sums),),
        steps=(operation("aten.add.Tensor", following, self=carried, other=inside),),
        place=HERE,
    )
    model = nn.Identity()
    steps = (ScopeEnter("", 0, model, {"x": whole}), loop, ScopeExit("", 0, (last, sums)))
    return Graph((whole,), {}, {zero: None}, steps)
