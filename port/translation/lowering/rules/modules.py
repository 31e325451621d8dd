"""Lower calls of leaf layers to calls of their twins, with inputs in the pair's layout."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from port.errors import NoPair
from port.pairs import LayerPair, name_of
from port.pairs.ops.axes import Along, Each, First, Last
from port.pairs.registry import resolve
from port.pairs.twin import twin_pair
from port.translation.frontend.random_layers import draws_once
from port.translation.ir import syntax
from port.translation.ir.expr import code, held, literal
from port.translation.ir.graph import LayerCall, Value, each_value, mapped
from port.translation.ir.layout import Folded, Layout, channels_last, torchs
from port.translation.lowering.axes.along import from_end
from port.translation.lowering.axes.product import rows_first
from port.translation.lowering.broadcast import together
from port.translation.lowering.rules.parameters import variable

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext


def call_layer(stage: LoweringContext, call: LayerCall) -> None:
    """Lower a layer's call.

    Raises:
        NoPair: the layer has no twin, or its twin does not accept these arguments.
    """
    inputs = list(each_value((call.arguments, call.keywords)))
    results = list(each_value(call.results))
    is_idle = call.path in stage.idle
    if is_idle and len(inputs) == len(results) == 1:
        called = syntax.Call(held(call.path), (stage.ref(inputs[0]),))
        stage.give_tree(call.results, called, {results[0]: stage.layout(inputs[0])}, inputs[0], call.path)
        return
    pair = None if is_idle else twin_pair(call.module)
    if pair is None or name_of(pair.flax) == "jax.nn.identity":
        for result, value in zip(results, inputs, strict=False):  # an identity ignores further arguments
            stage.alias(result, value, stage.layout(value))
        return
    stage.note(*pair.notes, *(("W28",) if "lengths" in call.keywords else ()))
    fitting, layouts, options, follows = _laid_out(stage, call, pair, inputs, results)
    if stage.training and draws_once(call.module):
        stage.draws.append(layouts[0])
    expression = _call(stage, call, pair, fitting, options)
    stage.give_tree(call.results, expression, dict(zip(results, layouts, strict=True)), follows, call.path)


Fitting = dict[Value, syntax.Expr]


def _laid_out(
    stage: LoweringContext, call: LayerCall, pair: LayerPair, inputs: list[Value], results: list[Value]
) -> tuple[Fitting, list[Layout], dict[str, Any], Value | None]:
    """Return the inputs in the twin's layout, the results' layouts, axis arguments, and the operand to follow."""
    if pair.channels is not None:
        return (*_channels(stage, pair, inputs, results), {}, None)
    match pair.axes:
        case Each():
            layout, expressions, leader = together(stage, inputs)
            follows = leader if layout == stage.layout(leader) else None
            return dict(zip(inputs, expressions, strict=True)), [layout] * len(results), {}, follows
        case Along(variables=names):
            arguments = pair.arguments(call.module)
            if all(isinstance(arguments[name], int) for name in names) and len(inputs) == 1:
                value = inputs[0]
                layout = replace(stage.layout(value), folded=None)
                axes = {name: from_end(layout.axis(arguments[name]), layout.rank) for name in names}
                return {value: stage.need(value, layout)}, [layout] * len(results), axes, value
        case First() if len(inputs) == 1:
            value = inputs[0]
            layout = stage.layout(value)
            if layout.order[0] != 0:
                layout = replace(layout, order=(0, *(dim for dim in layout.order if dim != 0)))
            follows = value if layout == stage.layout(value) else None
            return {value: stage.need(value, layout)}, [layout] * len(results), {}, follows
        case Last() as last if len(inputs) == 1:
            return _last(stage, call, last, inputs[0], results)
    return {value: _in_torchs(stage, value) for value in inputs}, [torchs(value.rank) for value in results], {}, None


def _in_torchs(stage: LoweringContext, value: Value) -> syntax.Expr:
    return stage.ref(value) if value.shape is None else stage.need(value)


def _channels(
    stage: LoweringContext, pair: LayerPair, inputs: list[Value], results: list[Value]
) -> tuple[Fitting, list[Layout]]:
    axis = pair.channels
    assert axis is not None

    def last(value: Value) -> Layout:
        # An input with too few axes for the channel axis has no channels: it keeps torch's layout.
        has_it = value.rank > axis if axis >= 0 else value.rank >= -axis
        return channels_last(value.rank, axis) if has_it else torchs(value.rank)

    fitting = {}
    for number, value in enumerate(inputs):
        is_image = value.shape is not None and (pair.channel_inputs is None or number in pair.channel_inputs)
        if not pair.channel_outputs and value.dtype.startswith(("int", "uint")):
            is_image = False  # a loss's integer class labels have no channel axis
        fitting[value] = stage.need(value, last(value)) if is_image else _in_torchs(stage, value)
    layouts = [last(value) if pair.channel_outputs else torchs(value.rank) for value in results]
    return fitting, layouts


def _last(
    stage: LoweringContext, call: LayerCall, last: Last, value: Value, results: list[Value]
) -> tuple[Fitting, list[Layout], dict[str, Any], Value | None]:
    layout = stage.layout(value)
    folded = layout.folded
    result = results[0]
    if last.added:
        layout = Layout((*layout.order, *range(value.rank, result.rank)))
        return {value: stage.ref(value)}, [layout], {}, None
    wanted = rows_first(stage, value)
    if folded is not None and folded.axis == value.rank - 1 and _takes_fold(stage, call, folded):
        wanted = replace(wanted, folded=folded)
        stage.folds[call.path] = folded
    expression = stage.need(value, wanted)
    after = replace(wanted, folded=None)
    return {value: expression}, [after], {}, value if after == layout else None


def _takes_fold(stage: LoweringContext, call: LayerCall, folded: Folded) -> bool:
    """Whether a linear layer's weights can absorb a fold: every call of it must have the same one."""
    import torch

    if type(call.module) is not torch.nn.Linear or call.path in stage.shared:
        return False
    known = stage.folds.get(call.path)
    return stage.calls[call.path] == 1 or known == folded


def _call(
    stage: LoweringContext, call: LayerCall, pair: LayerPair, fitting: Fitting, options: dict[str, Any]
) -> syntax.Expr:
    def known(tree: Any) -> syntax.Expr:
        return literal(mapped(tree, lambda value: fitting[value] if value in fitting else stage.ref(value)))

    arguments = [known(argument) for argument in call.arguments]
    keywords = {name: known(argument) for name, argument in call.keywords.items()}
    if isinstance(resolve(pair.flax), type):
        taken = inspect.signature(resolve(pair.flax).__call__).parameters
        order = list(inspect.signature(type(call.module).forward).parameters)[1:]
        for name in order[len(arguments) :]:
            if name in taken or name not in keywords:
                break
            arguments.append(keywords.pop(name))  # the twin has another name for it
        unknown = [name for name in keywords if name not in taken and "kwargs" not in taken]
        if unknown or (len(arguments) > len(taken) - 1 and "args" not in taken and "inputs" not in taken):
            raise NoPair(f"its twin {name_of(pair.flax)} does not accept {', '.join(unknown) or 'so many arguments'}")
        callee: syntax.Expr = held(call.path)
    else:
        callee = code(name_of(pair.flax))
        fixed = {**pair.arguments(call.module), **options}
        names = {name for param in pair.params_of_torch(call.module) for name in param.flax_names}
        fixed |= {name: variable(call.path, name) for name in names if _has(call.module, pair, name)}
        keywords |= {name: literal(_plain(value)) for name, value in fixed.items()}
    return syntax.Call(callee, tuple(arguments), tuple(syntax.Keyword(name, value) for name, value in keywords.items()))


def _has(module: Any, pair: LayerPair, flax_name: str) -> bool:
    return any(
        flax_name in param.flax_names and all(getattr(module, name, None) is not None for name in param.torch_names)
        for param in pair.params_of_torch(module)
    )


def _plain(value: Any) -> Any:
    """Return an option as a literal.

    Raises:
        NoPair: the option is a function.
    """
    if callable(value):
        name = name_of(value) if hasattr(value, "__qualname__") else repr(value)
        raise NoPair(f"one of its options is the function {name}, which has no literal")
    return tuple(value) if isinstance(value, list) else value
