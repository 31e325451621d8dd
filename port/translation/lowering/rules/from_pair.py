"""Operators that a pair speaks of: its expression, its axes renumbered for the layout that the operands have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from port.errors import NoPair
from port.pairs.ops.axes import Along, Each, Over, Spatial
from port.pairs.ops.matching import matching
from port.pairs.ops.operator_pair import OperatorPair
from port.pairs.registered import registered
from port.translation.ir import syntax
from port.translation.ir.expr import code, literal
from port.translation.ir.graph import Operation, Value, each_value
from port.translation.ir.layout import Layout, channels_last, torchs, without
from port.translation.ir.simplify import simplify
from port.translation.lowering.rules.broadcast import together
from port.translation.lowering.rules.concat_split import from_end

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext


@dataclass(frozen=True)
class Tensor:
    """What a pair's condition may ask of an argument."""

    value: Value

    @property
    def shape(self) -> tuple[Any, ...]:
        return self.value.shape or ()

    @property
    def ndim(self) -> int:
        return self.value.rank

    @property
    def dtype(self) -> Any:
        return numpy_dtype(self.value.dtype)


def numpy_dtype(name: str) -> Any:
    """numpy's dtype of a torch one; bfloat16 as jax has it."""
    import ml_dtypes

    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def from_pair(stage: LoweringContext, operation: Operation) -> None:
    """Write an operator as its pair does.

    Raises:
        NoPair: no pair speaks of it, or none with these arguments.
    """
    pair, variables = pair_of(stage, operation)
    operands = [value for value in each_value(variables) if value.shape is not None]
    match pair.axes:
        case Each() if operands:
            _each(stage, operation, pair, variables, operands)
        case Along():
            _along(stage, operation, pair, variables, operands, pair.axes)
        case Over():
            _over(stage, operation, pair, variables, operands, pair.axes)
        case Spatial() if _is_image(variables, pair.axes):
            _spatial(stage, operation, pair, variables, pair.axes)
        case _:
            needed = {name: written(stage, variable) for name, variable in variables.items()}
            give(stage, operation, pair.jax, needed, [torchs(result.rank) for result in operation.results])


def pair_of(stage: LoweringContext, operation: Operation) -> tuple[OperatorPair, dict[str, Any]]:
    """The pair that speaks of an operator, and what the variables of its expression are.

    Raises:
        NoPair: no pair speaks of it, or none with these arguments.
    """
    given = {name: _stood_in(argument) for name, argument in operation.arguments.items()}
    found = matching(operation.operator, given)
    if found is None:
        raise NoPair(f"no pair speaks of this operator with these arguments: {_told(operation.arguments)}")
    pair, variables = found
    stage.note(*pair.notes)
    return pair, {name: _back(variable) for name, variable in variables.items()}


def is_registered(operation: Operation) -> bool:
    """Whether a pair of the user's own speaks of an operator: it goes before the rules, too."""
    own = registered(OperatorPair)
    if operation.operator.rpartition(".")[0] not in {pair.aten for pair in own}:
        return False
    found = matching(operation.operator, {name: _stood_in(given) for name, given in operation.arguments.items()})
    return found is not None and found[0] in own


def _each(
    stage: LoweringContext, operation: Operation, pair: OperatorPair, variables: dict[str, Any], operands: list[Value]
) -> None:
    layout, expressions, leader = together(stage, operands)
    fitting = dict(zip(operands, expressions, strict=True))
    ready = {name: _replaced(stage, variable, fitting) for name, variable in variables.items()}
    follows = leader if layout == stage.layout(leader) else None
    give(stage, operation, pair.jax, ready, [layout] * len(operation.results), follows)


def _along(
    stage: LoweringContext,
    operation: Operation,
    pair: OperatorPair,
    variables: dict[str, Any],
    operands: list[Value],
    axes: Along,
) -> None:
    layout, expressions, leader = together(stage, operands)
    dims = {name: variables.get(name) for name in _names(axes)}
    if any(dim is None for dim in dims.values()) or any(value.rank != layout.rank for value in operands):
        layout, expressions = torchs(layout.rank), [stage.need(value) for value in operands]
    if layout.folded is not None:
        layout = replace(layout, folded=None)
        expressions = [stage.need(value, layout) for value in operands]
    fitting = dict(zip(operands, expressions, strict=True))
    ready = {name: _replaced(stage, variable, fitting) for name, variable in variables.items()}
    ready |= {name: literal(_renumbered(dim, layout)) for name, dim in dims.items() if dim is not None}
    follows = leader if layout == stage.layout(leader) else None
    layouts = [layout if result.rank == layout.rank else torchs(result.rank) for result in operation.results]
    give(stage, operation, pair.jax, ready, layouts, follows)


def _over(
    stage: LoweringContext,
    operation: Operation,
    pair: OperatorPair,
    variables: dict[str, Any],
    operands: list[Value],
    axes: Over,
) -> None:
    layout, expressions, _ = together(stage, operands)
    dim = None if axes.variable is None else variables.get(axes.variable)
    if layout.folded is not None and dim is not None:
        gone = {d % layout.rank for d in ((dim,) if isinstance(dim, int) else dim)}
        if layout.folded.axis in gone or axes.keepdim:
            layout = replace(layout, folded=None)
            expressions = [stage.need(value, layout) for value in operands]
    fitting = dict(zip(operands, expressions, strict=True))
    ready = {name: _replaced(stage, variable, fitting) for name, variable in variables.items()}
    if dim is None or dim in ((), []):
        if axes.variable is not None:
            ready[axes.variable] = literal(None)
        after = torchs(operation.results[0].rank)
        if operation.results[0].rank == layout.rank:
            after = layout
    else:
        assert axes.variable is not None
        ready[axes.variable] = literal(_renumbered(dim, layout))
        gone = {d % layout.rank for d in ((dim,) if isinstance(dim, int) else dim)} if layout.rank else set()
        after = layout if operation.results[0].rank == layout.rank else without(layout, gone)
    give(stage, operation, pair.jax, ready, [after] * len(operation.results))


def _spatial(
    stage: LoweringContext, operation: Operation, pair: OperatorPair, variables: dict[str, Any], axes: Spatial
) -> None:
    image: Value = variables["input"]
    spatial = axes.axes or image.rank - 2
    layout = channels_last(image.rank, image.rank - spatial - 1)
    after = spatial if axes.results is None else axes.results
    ready = {name: written(stage, variable) for name, variable in variables.items()}
    ready["input"] = stage.need(image, layout)
    layouts = [channels_last(result.rank, result.rank - after - 1) for result in operation.results]
    follows = image if stage.layout(image) == layout else None
    give(stage, operation, axes.last, ready, layouts, follows)


def _is_image(variables: dict[str, Any], axes: Spatial) -> bool:
    image = variables.get("input")
    return isinstance(image, Value) and image.rank >= (axes.axes or 0) + 1


def give(
    stage: LoweringContext,
    operation: Operation,
    template: str,
    variables: dict[str, Any],
    layouts: list[Layout],
    follows: Value | None = None,
) -> None:
    """The results as a pair's expression gives them, its variables replaced."""
    ranks = {value.name: value.rank for value in stage.placed.layouts}
    expression = simplify(code(template, **variables), ranks.get)
    results = operation.results
    if operation.several:
        stage.give_several(results, expression, layouts, follows)
    else:
        stage.give(results[0], expression, layouts[0], follows=follows)


def _told(arguments: dict[str, Any]) -> str:
    """Arguments in words: ``self: float64 (2, 3), dim = 1``; those left out are not told."""

    def shown(argument: Any) -> Any:
        match argument:
            case Value(shape=None):
                return argument.length
            case Value():
                return f"{argument.dtype} {argument.shape}"
            case list() | tuple():
                return f"[{', '.join(str(shown(item)) for item in argument)}]"
            case _:
                return repr(argument)

    tensors = {
        name for name, argument in arguments.items() if any(each.shape is not None for each in each_value(argument))
    }
    words = [
        f"{name}{': ' if name in tensors else ' = '}{shown(argument)}"
        for name, argument in arguments.items()
        if argument is not None
    ]
    return ", ".join(words)


def _names(axes: Along) -> tuple[str, ...]:
    return axes.variables


def _renumbered(dim: Any, layout: Layout) -> Any:
    """Axes as the array has them, in the order in which they were given."""
    if isinstance(dim, tuple | list):
        return tuple(_renumbered(each, layout) for each in dim)
    return from_end(layout.axis(dim), layout.rank) if layout.rank else dim


def _stood_in(argument: Any) -> Any:
    match argument:
        case Value() if argument.shape is not None:
            return Tensor(argument)
        case list():
            return [_stood_in(item) for item in argument]
        case tuple():
            return tuple(_stood_in(item) for item in argument)
        case _:
            return argument


def _back(variable: Any) -> Any:
    match variable:
        case Tensor():
            return variable.value
        case list():
            return [_back(item) for item in variable]
        case tuple():
            return tuple(_back(item) for item in variable)
        case _:
            return variable


def written(stage: LoweringContext, variable: Any) -> Any:
    """A variable whose tensors are in torch's layout."""
    match variable:
        case Value() if variable.shape is not None:
            return stage.need(variable)
        case Value():
            return stage.ref(variable)
        case list():
            return [written(stage, item) for item in variable]
        case tuple():
            return tuple(written(stage, item) for item in variable)
        case _:
            return source_of(variable)


def _replaced(stage: LoweringContext, variable: Any, fitting: dict[Value, syntax.Expr]) -> Any:
    match variable:
        case Value():
            return fitting[variable] if variable in fitting else stage.ref(variable)
        case list():
            return [_replaced(stage, item, fitting) for item in variable]
        case tuple():
            return tuple(_replaced(stage, item, fitting) for item in variable)
        case _:
            return source_of(variable)


def source_of(constant: Any) -> Any:
    """A constant of a graph's as JAX takes it: dtypes by their names."""
    name = str(constant)
    if type(constant).__module__ == "torch" and name.startswith("torch."):
        from port.translation.lowering.rules.cast import jax_dtype

        return code(f"jnp.{jax_dtype(name.removeprefix('torch.'))}")
    return constant
