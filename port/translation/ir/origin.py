"""Where a number comes from: what the original's source says in its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from port.translation.ir.source_location import SourceLocation


@dataclass(frozen=True)
class LiteralAt:
    """It stands in the source.

    Attributes:
        value: the number.
        location: the file and the line; None for a number of code that is not the original's.
        column: from 0, in bytes of UTF-8 as Python's own syntax trees count.
    """

    value: int | float | bool
    location: SourceLocation | None = None
    column: int = 0


@dataclass(frozen=True)
class AttributeOf:
    """A module of the original's holds it.

    Attributes:
        path: of the module; empty for the root.
        attribute: as it is written behind the module: ``head_dim``, ``config.n_head``, ``kernel_size[0]``.
    """

    path: str
    attribute: str


@dataclass(frozen=True)
class LengthOf:
    """It is the length of a tensor along one of torch's axes.

    Attributes:
        tensor: as the source calls it where the length is read.
        axis: as the source counts: -1 is the last.
        location: where the length is read; a tensor's name may be another tensor's elsewhere.
    """

    tensor: str
    axis: int
    location: SourceLocation


@dataclass(frozen=True)
class WorkedOut:
    """It follows from others.

    Attributes:
        function: an operator as Python writes it (``//``), or a function's name (``math.sqrt``).
        operands: what it is worked out from; of one operand, an operator is a sign.
    """

    function: str
    operands: tuple[Origin, ...]


@dataclass(frozen=True)
class DefaultOf:
    """No call gives it: it is the default of a parameter.

    Attributes:
        function: that is called: ``Net.forward``, or an operator's overload, ``aten.add.Tensor``.
        parameter: its name.
    """

    function: str
    parameter: str

    @property
    def is_of_operator(self) -> bool:
        """Whether it is a default of torch's own, which no source says."""
        return self.function.startswith("aten.")


@dataclass(frozen=True)
class ConstructorArgument:
    """A constructor is given it.

    Attributes:
        constructor: which one: the modules of a construction are numbered as their constructors begin.
        argument: as it is written in the constructor: ``depth``, ``config.n_head``, ``depths[2]``.
    """

    constructor: int
    argument: str


@dataclass(frozen=True)
class ShapeRead:
    """The written code can read it off an array that it has.

    Attributes:
        variable: the array's name there.
        axis: of the array.
    """

    variable: str
    axis: int


@dataclass(frozen=True)
class NamedLength:
    """A variable of the written code holds it: a length that the original's code gives a name as well.

    Attributes:
        variable: its name, or an item of a list of lengths: ``input_shape[0]``.
        value: the number.
    """

    variable: str
    value: int


@dataclass(frozen=True)
class ParameterOf:
    """A parameter of the written function around it holds it.

    Attributes:
        parameter: as the function's code reads it: ``window_size``, ``size[0]``.
        value: the number.
    """

    parameter: str
    value: int | float | bool


Origin: TypeAlias = (
    "LiteralAt | AttributeOf | LengthOf | WorkedOut | DefaultOf | ConstructorArgument | ShapeRead | NamedLength"
    " | ParameterOf"
)


def said(origin: Origin, scope: str = "") -> str:
    """An origin in a few words, as the source has it: ``self.dim // self.heads``.

    Args:
        origin: of a number.
        scope: path of the module in whose code the number stands: its attributes are ``self``'s.
    """
    match origin:
        case LiteralAt(value, location, column):
            return repr(value) if location is None else f"{location.line}:{column}"
        case AttributeOf(path, attribute):
            if path == scope:
                return f"self.{attribute}"
            inside = path.removeprefix(f"{scope}.") if scope else path
            return f"self.{inside}.{attribute}" if inside != path or not scope else f"{path or 'the model'}.{attribute}"
        case LengthOf(tensor, axis) | ShapeRead(tensor, axis):
            return f"{tensor}.shape[{axis}]"
        case WorkedOut(function, (operand,)) if not _is_name(function):
            return f"{function}{_operand(operand, scope)}"
        case WorkedOut(function, operands) if _is_name(function):
            return f"{function}({', '.join(said(operand, scope) for operand in operands)})"
        case WorkedOut(function, operands):
            return f" {function} ".join(_operand(operand, scope) for operand in operands)
        case DefaultOf():
            return "default"
        case ConstructorArgument(_, argument) | ParameterOf(argument, _) | NamedLength(argument, _):
            return argument


def _operand(origin: Origin, scope: str) -> str:
    text = said(origin, scope)
    is_composed = isinstance(origin, WorkedOut) and not _is_name(origin.function)
    return f"({text})" if is_composed else text


def _is_name(function: str) -> bool:
    return function.replace(".", "").isidentifier()
