"""Lower ``F.linear(x, self.head.weight, self.head.bias)``, which reads a layer's weights, to a call of the layer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from port.pairs.registry import resolve
from port.pairs.twin import twin_pair
from port.translation.ir.expr import code, held
from port.translation.ir.graph import Operation, Value
from port.translation.lowering.axes.product import rows_first

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext

_CALL, _ATTEND = "port_translation.linear.default", "port_translation.attend.default"


def of_a_layer(stage: LoweringContext, operation: Operation) -> Operation:
    """Rewrite ``F.linear`` to a call of the layer that holds its weights; return others unchanged.

    Inside a function that takes the weights as arguments there is no layer to call.
    """
    weight, bias = operation.arguments["weight"], operation.arguments["bias"]
    if stage.is_argument(weight):
        return operation
    layer, table = _layer_of(stage, weight, bias), _table_of(stage, weight) if bias is None else None
    if layer is None and table is None:
        return operation
    arguments = {"input": operation.arguments["input"], "path": layer or table}
    return replace(operation, operator=_ATTEND if layer is None else _CALL, arguments=arguments)


def _layer_of(stage: LoweringContext, weight: Value, bias: Value | None) -> str | None:
    """Return the path of the linear layer that holds both weight and bias; None if there is none."""
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
    """Return the path of the embedding whose table is the weight; None if it is not one."""
    import torch
    from flax import nnx

    path, _, name = stage.graph.held.get(weight, "").rpartition(".")
    if name != "weight" or path not in stage.layers:
        return None
    module = stage.root.get_submodule(path)
    is_flaxs = isinstance(module, torch.nn.Embedding) and resolve(twin_pair(module).flax) is nnx.Embed
    return path if is_flaxs else None


def _call(stage: LoweringContext, operation: Operation) -> None:
    _written(stage, operation, "layer(x)")


def _attend(stage: LoweringContext, operation: Operation) -> None:
    """Lower to Flax's ``attend``, which computes in the embedding's dtype."""
    _written(stage, operation, "layer.attend(x)")


def _written(stage: LoweringContext, operation: Operation, template: str) -> None:
    value: Value = operation.arguments["input"]
    layout = rows_first(stage, value)
    expression = code(template, layer=held(operation.arguments["path"]), x=stage.need(value, layout))
    follows = value if layout == stage.layout(value) else None
    stage.give(operation.results[0], expression, layout, follows=follows)


RULES = {_CALL: _call, _ATTEND: _attend}
