"""Match an operator to its pair, and assign its results by the pair's expression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from port.errors import NoPair
from port.pairs.ops.axes import Along
from port.pairs.ops.matching import matching
from port.pairs.ops.operator_pair import OperatorPair
from port.pairs.registered import registered
from port.translation.ir.expr import code, filled, literal
from port.translation.ir.graph import Operation, Value, each_value
from port.translation.ir.layout import Layout, Order
from port.translation.lowering.context import Back
from port.translation.lowering.drawing import drawn
from port.translation.lowering.templates import Array, Length, Other, SourceFragment, specialised

if TYPE_CHECKING:
    from port.translation.lowering.context import LoweringContext

_NUMBERS = bool | int | float | complex | str | SourceFragment | None


@dataclass(frozen=True)
class Paired:
    """An operator, its pair, and the values of the variables in the pair's expression."""

    operation: Operation
    pair: OperatorPair
    variables: dict[str, Any]

    @property
    def operands(self) -> list[Value]:
        """The tensors among the variables."""
        return [value for value in each_value(self.variables) if value.shape is not None]


def pair_of(operation: Operation) -> Paired:
    """Return an operator with its pair.

    Raises:
        NoPair: no pair covers the operator, or none covers it with these arguments.
    """
    arguments = {name: _stand_in(argument) for name, argument in operation.arguments.items()}
    found = matching(operation.operator, arguments)
    if found is None:
        raise NoPair(f"no pair covers this operator with these arguments: {_described(operation.arguments)}")
    pair, variables = found
    return Paired(operation, pair, {name: _original(variable) for name, variable in variables.items()})


def is_registered(operation: Operation) -> bool:
    """Whether a pair that the user registered covers an operator."""
    own = registered(OperatorPair)
    if operation.operator.rpartition(".")[0] not in {pair.aten for pair in own}:
        return False
    found = matching(operation.operator, {name: _stand_in(argument) for name, argument in operation.arguments.items()})
    return found is not None and found[0] in own


def give(
    stage: LoweringContext,
    paired: Paired,
    variables: dict[str, Any],
    layouts: list[Layout],
    *,
    template: str | None = None,
    follows: Value | None = None,
    back: Back | None = None,
) -> None:
    """Assign an operator's results by its pair's expression.

    Args:
        stage: the lowering context.
        paired: the operator.
        variables: the values of the expression's variables, with source in place of tensors and lengths.
        layouts: the results' layouts.
        template: the expression, if it is not the pair's ``jax``.
        follows: the operand whose layout propagates to the results.
        back: maps a layout of the result to the layout that the operand would need; by default the same.
    """
    axes, results = paired.pair.axes, paired.operation.results
    # The number of parts of a split is known; it is written as a number.
    order = layouts[0].order if isinstance(axes, Along) and axes.cuts else None
    holes: dict[str, Any] = {}
    known = {name: _known(name, variable, variables[name], holes, order) for name, variable in paired.variables.items()}
    draws = paired.pair.draws
    if draws is None:
        expression = specialised(template or paired.pair.jax, known)
    else:
        name = draws.name
        expression = specialised(template or paired.pair.jax, {**known, name: Other()})
        expression, holes[name] = drawn(stage, draws, paired.variables, expression, layouts[0])
    expression = filled(expression, holes)
    if paired.operation.several:
        stage.give_several(results, expression, layouts, follows, back)
    else:
        stage.give(results[0], expression, layouts[0], follows=follows, back=back)


def _known(name: str, variable: Any, filled: Any, holes: dict[str, Any], order: Order | None) -> Any:
    """Return what a template may know about a variable; put the variable's source into ``holes``."""
    if isinstance(filled, tuple | list):
        items = variable if isinstance(variable, tuple | list) else filled
        return tuple(
            _known(f"{name}_{k}", items[k] if k < len(items) else None, item, holes, order)
            for k, item in enumerate(filled)
        )
    if isinstance(filled, _NUMBERS):
        return filled
    holes[name] = literal(filled)
    if not isinstance(variable, Value):
        return Other()
    if variable.shape is None:
        return Length()
    lengths = [variable.shape[dim] for dim in order or ()]
    return Array(variable.rank, tuple(length if isinstance(length, int) else None for length in lengths))


# %% Variables, as conditions and as source


@dataclass(frozen=True)
class TensorArgument:
    """A tensor as a pair's condition sees it."""

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


class LengthArgument(str):
    """A symbolic length as a pair's condition sees it: its formula."""

    value: Value


def _stand_in(argument: Any) -> Any:
    match argument:
        case Value() if argument.shape is not None:
            return TensorArgument(argument)
        case Value() if isinstance(argument.length, str):
            length = LengthArgument(argument.length)
            length.value = argument
            return length
        case list():
            return [_stand_in(item) for item in argument]
        case tuple():
            return tuple(_stand_in(item) for item in argument)
        case _:
            return argument


def _original(variable: Any) -> Any:
    match variable:
        case TensorArgument() | LengthArgument():
            return variable.value
        case list():
            return [_original(item) for item in variable]
        case tuple():
            return tuple(_original(item) for item in variable)
        case _:
            return variable


def in_torchs(stage: LoweringContext, variable: Any) -> Any:
    """Return a variable's source, with its tensors in torch's layout."""
    return _written(variable, lambda value: stage.ref(value) if value.shape is None else stage.need(value))


def in_own_layouts(stage: LoweringContext, variable: Any, fitting: dict[Value, Any]) -> Any:
    """Return a variable's source, with its tensors from ``fitting``, or else in their own layouts."""
    return _written(variable, lambda value: fitting[value] if value in fitting else stage.ref(value))


def _written(variable: Any, of_value: Any) -> Any:
    match variable:
        case Value():
            return of_value(variable)
        case list() | tuple():
            return type(variable)(_written(item, of_value) for item in variable)
        case slice():
            return literal(variable)
        case _:
            return _source_of(variable)


def _source_of(constant: Any) -> Any:
    """Return a constant for JAX; torch's dtypes become jax.numpy's."""
    name = str(constant)
    if type(constant).__module__ == "torch" and name.startswith("torch."):
        return code(f"jnp.{jax_dtype(name.removeprefix('torch.'))}")
    return constant


def numpy_dtype(name: str) -> Any:
    """Return the numpy dtype for a torch dtype's name; bfloat16 comes from ml_dtypes."""
    import ml_dtypes

    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def jax_dtype(name: str) -> str:
    """Return jax.numpy's name for a torch dtype's name."""
    return {"bool": "bool_"}.get(name, name)


def _described(arguments: dict[str, Any]) -> str:
    """Describe arguments for a message, ``self: float64 (2, 3), dim = 1``; None is left out."""

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
