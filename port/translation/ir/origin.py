"""Origins: the expression in the original's source that a number comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from port.translation.ir.source_location import SourceLocation


@dataclass(frozen=True)
class LiteralAt:
    """A literal in the source.

    Attributes:
        value: the number.
        location: the file and the line; None for a literal outside the original's source.
        column: from 0, in bytes of UTF-8, as in Python's `ast`.
    """

    value: int | float | bool
    location: SourceLocation | None = None
    column: int = 0


@dataclass(frozen=True)
class AttributeOf:
    """An attribute of one of the original's modules.

    Attributes:
        path: the module's path; empty for the root.
        attribute: the expression after the module: ``head_dim``, ``config.n_head``, ``kernel_size[0]``.
    """

    path: str
    attribute: str


@dataclass(frozen=True)
class LengthOf:
    """The length of a tensor along one of torch's axes.

    Attributes:
        tensor: the tensor's name in the source where the length is read.
        axis: the axis in the source; -1 is the last.
        location: where the length is read; elsewhere the name may refer to another tensor.
    """

    tensor: str
    axis: int
    location: SourceLocation


@dataclass(frozen=True)
class WorkedOut:
    """A computation from other numbers.

    Attributes:
        function: a Python operator (``//``), or a function's name (``math.sqrt``).
        operands: the origins of its operands; with one operand, an operator is unary.
    """

    function: str
    operands: tuple[Origin, ...]


@dataclass(frozen=True)
class DefaultOf:
    """The default of a parameter that the call does not pass.

    Attributes:
        function: the function called: ``Net.forward``, or an operator's overload, ``aten.add.Tensor``.
        parameter: the parameter's name.
    """

    function: str
    parameter: str

    @property
    def is_of_operator(self) -> bool:
        """Whether it is the default of one of torch's operators, which has no Python source."""
        return self.function.startswith("aten.")


@dataclass(frozen=True)
class ConstructorArgument:
    """An argument of a constructor.

    Attributes:
        constructor: the constructor's number; modules are numbered in the order in which their constructors begin.
        argument: the expression in the constructor: ``depth``, ``config.n_head``, ``depths[2]``.
    """

    constructor: int
    argument: str


@dataclass(frozen=True)
class ShapeRead:
    """The length of an array that the generated code has.

    Attributes:
        variable: the array's name in the generated code.
        axis: the array's axis.
    """

    variable: str
    axis: int


@dataclass(frozen=True)
class NamedLength:
    """A variable of the generated code, for a length that the original assigns to a variable too.

    Attributes:
        variable: its name, or an item of a list of lengths: ``input_shape[0]``.
        value: the number.
    """

    variable: str
    value: int


@dataclass(frozen=True)
class ParameterOf:
    """A parameter of the enclosing generated function.

    Attributes:
        parameter: the expression in the function: ``window_size``, ``size[0]``.
        value: the number.
    """

    parameter: str
    value: int | float | bool


Origin: TypeAlias = (
    "LiteralAt | AttributeOf | LengthOf | WorkedOut | DefaultOf | ConstructorArgument | ShapeRead | NamedLength"
    " | ParameterOf"
)


def said(origin: Origin, scope: str = "") -> str:
    """Return a short text for an origin, as in the source: ``self.dim // self.heads``.

    Args:
        origin: a number's origin.
        scope: path of the module whose code has the number; its attributes are ``self``'s.
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
