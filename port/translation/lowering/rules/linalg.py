"""Products of matrices, which multiply the last two axes; and linear layers whose weights are taken by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from port.errors import NoPair
from port.pairs.registry import resolve
from port.pairs.twin import twin_pair
from port.translation.ir import syntax
from port.translation.ir.expr import code, held
from port.translation.ir.graph import Operation, Value
from port.translation.ir.layout import Layout, torchs

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext


def _matmul(stage: LoweringContext, operation: Operation) -> None:
    left, right, result = (*(operation.arguments[name] for name in _pair(operation)), operation.results[0])
    stage.give(result, product(stage, left, right), torchs(result.rank))


def _pair(operation: Operation) -> tuple[str, str]:
    return ("self", "mat2" if "mat2" in operation.arguments else "vec" if "vec" in operation.arguments else "other")


def product(stage: LoweringContext, left: Value, right: Value) -> syntax.Expr:
    """``left @ right``; a matrix that lies transposed is written ``.T``."""
    return code("left @ right", left=stage.need(left), right=_flipped(stage, right))


def _flipped(stage: LoweringContext, value: Value) -> syntax.Expr:
    layout = stage.layout(value)
    if value.rank == 2 and layout.order == (1, 0) and layout.folded is None:
        # Cheap, and clearer where it is used than where the axes were swapped.
        return code("x.T", x=stage.ref(value))
    return stage.need(value)


def _linear(stage: LoweringContext, operation: Operation) -> None:
    value, weight, bias = (operation.arguments[name] for name in ("input", "weight", "bias"))
    result = operation.results[0]
    layer, table = _layer_of(stage, weight, bias), _table_of(stage, weight)
    layout = rows_first(stage, value)
    if layer is not None:
        expression = code("layer(x)", layer=held(layer), x=stage.need(value, layout))
    elif table is not None:
        # Flax's name for it, which computes in the embedding's dtype as a layer does.
        expression = code("table.attend(x)", table=held(table), x=stage.need(value, layout))
    else:
        kernel = stage.layout(weight)
        if kernel.folded is not None:
            raise NoPair("a weight whose elements are in another order")
        name = "x @ w" if kernel.order == (1, 0) else "x @ w.T"
        expression = code(name, x=stage.need(value, layout), w=stage.ref(weight))
    if layer is None and bias is not None:
        expression = code("y + b", y=expression, b=stage.need(bias))
    stage.give(result, expression, layout, follows=value if layout == stage.layout(value) else None)


def rows_first(stage: LoweringContext, value: Value) -> Layout:
    """The layout that a value has, with torch's last axis last: what a linear layer takes."""
    layout = stage.layout(value)
    order = tuple(dim for dim in layout.order if dim != value.rank - 1)
    folded = layout.folded
    if folded is not None and folded.axis == value.rank - 1:
        folded = None
    return replace(layout, order=(*order, value.rank - 1), folded=folded) if value.rank else layout


def _layer_of(stage: LoweringContext, weight: Value, bias: Value | None) -> str | None:
    """The linear layer whose own weight and bias these are."""
    import torch

    path, _, name = stage.graph.held.get(weight, "").rpartition(".")
    if name != "weight" or not path:
        return None
    module = stage.root.get_submodule(path)
    mine = None if bias is None else stage.graph.held.get(bias)
    if type(module) is not torch.nn.Linear or path not in stage.layers:
        return None
    return path if mine == (None if module.bias is None else f"{path}.bias") else None


def _table_of(stage: LoweringContext, weight: Value) -> str | None:
    """The embedding whose table a linear layer has for its weight."""
    import torch
    from flax import nnx

    path, _, name = stage.graph.held.get(weight, "").rpartition(".")
    if name != "weight" or path not in stage.layers:
        return None
    module = stage.root.get_submodule(path)
    is_flaxs = isinstance(module, torch.nn.Embedding) and resolve(twin_pair(module).flax) is nnx.Embed
    return path if is_flaxs else None


def _addmm(stage: LoweringContext, operation: Operation) -> None:
    given = operation.arguments
    one, other = ("mat1", "mat2") if "mat1" in given else ("batch1", "batch2") if "batch1" in given else ("mat", "vec")
    expression = product(stage, given[one], given[other])
    if given["alpha"] != 1:
        expression = code("alpha * y", alpha=stage.ref(given["alpha"]), y=expression)
    if given["beta"] != 0:
        added = stage.need(given["self"])
        scaled = added if given["beta"] == 1 else code("beta * x", beta=stage.ref(given["beta"]), x=added)
        expression = code("x + y", x=scaled, y=expression)
    stage.give(operation.results[0], expression)


RULES = {
    **dict.fromkeys(("aten.matmul", "aten.mm", "aten.bmm", "aten.mv"), _matmul),
    "aten.linear": _linear,
    **dict.fromkeys(("aten.addmm", "aten.baddbmm", "aten.addmv"), _addmm),
}
