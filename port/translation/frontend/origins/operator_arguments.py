"""Match the expressions of a call in the source with the arguments of the operator that it becomes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import torch

from port.translation.frontend.origins.arithmetic import is_number
from port.translation.frontend.origins.call_arguments import CallArguments, LazyArgument, call_arguments
from port.translation.frontend.origins.executing import ProgramPoint
from port.translation.frontend.origins.frame_objects import MISSING
from port.translation.frontend.origins.frame_parameters import operands_of
from port.translation.frontend.origins.resolved import Resolved
from port.translation.frontend.origins.subscripts import of_subscript
from port.translation.ir.number import each_number, is_same
from port.translation.ir.origin import DefaultOf

Resolve = Callable[[ast.expr, ProgramPoint], Resolved]

_OPERATORS: dict[type[ast.AST], tuple[str, ...]] = {
    ast.Add: ("add",),
    ast.Sub: ("sub", "rsub"),
    ast.Mult: ("mul",),
    ast.Div: ("div",),
    ast.FloorDiv: ("floor_divide",),
    ast.Mod: ("remainder",),
    ast.Pow: ("pow",),
    ast.Eq: ("eq",),
    ast.NotEq: ("ne",),
    ast.Lt: ("lt", "gt"),
    ast.LtE: ("le", "ge"),
    ast.Gt: ("gt", "lt"),
    ast.GtE: ("ge", "le"),
}
"""Python's operators → the ATen operators that they become; a comparison may be reversed."""

_RENAMED = {"input": "self", "axis": "dim", "keepdims": "keepdim"}
"""Alternative names of arguments in torch's functions → names in the operator's schema."""


def operator_arguments(
    point: ProgramPoint, target: Any, arguments: Mapping[str, Any], resolve: Resolve
) -> dict[str, Resolved]:
    """Resolve an operator's arguments, by the schema's names.

    Args:
        point: the point from which the operator is called.
        target: the operator's overload.
        arguments: the recorded arguments.
        resolve: resolves an expression at a point.
    """
    match point.node:
        case ast.Call() as call:
            # Tensors are not resolved: that may take long.
            tensors = {name for name, value in arguments.items() if not any(True for _ in each_number(value))}
            return _of_call(call, point, target, tensors, resolve)
        case ast.Subscript(_, key):
            return of_subscript(key, name_of(target), arguments, lambda node: resolve(node, point))
        case ast.BinOp() | ast.AugAssign() | ast.Compare():
            return _of_operator(point, target, arguments, resolve)
    return {}


def name_of(target: Any) -> str:
    """Return the name of an overload's operator: ``view``."""
    return str(target._schema.name).partition("::")[2]


def _of_call(
    call: ast.Call, point: ProgramPoint, target: Any, tensors: set[str], resolve: Resolve
) -> dict[str, Resolved]:
    match call.func:
        case ast.Attribute(of, name):
            base = resolve(of, point).value
            is_method = not _is_namespace(base)
            if is_method and base is not MISSING and not isinstance(base, torch.Tensor):
                return {}
        case ast.Name(name):
            is_method = False
        case _:
            return {}
    arguments = call_arguments(call, lambda node: resolve(node, point))
    if is_method:
        arguments = arguments.preceded_by([Resolved()])
    if name == name_of(target):
        matched = _by_schema(target, arguments, is_method) or {}
        return {argument: found() for argument, found in matched.items() if argument not in tensors}
    # An operator that the called function is made of has some of its arguments, under the same names.
    found: dict[str, list[LazyArgument]] = {}
    for overload in _overloads(name):
        matched = _by_schema(overload, arguments, is_method, defaults=False) or {}
        for argument, each in matched.items():
            found.setdefault(argument, []).append(each)
    return {
        argument: several[0]()
        for argument, several in found.items()
        if argument not in tensors and all(each is several[0] for each in several)
    }


def _is_namespace(value: Any) -> bool:
    """Whether a value is a namespace of functions, whose first argument is the tensor."""
    return isinstance(value, ModuleType) or value is torch.Tensor or value is torch._C._VariableFunctions


def _overloads(name: str) -> Iterator[Any]:
    packet = getattr(torch.ops.aten, name, None)
    for overload in () if packet is None else packet.overloads():
        yield getattr(packet, overload)


def _by_schema(
    target: Any, arguments: CallArguments, is_method: bool, *, defaults: bool = True
) -> dict[str, LazyArgument] | None:
    """Match a call's arguments with an operator's schema; None where they do not fit."""
    schema = target._schema.arguments
    places = [argument for argument in schema if not argument.kwarg_only]
    matched: dict[str, LazyArgument] = {}
    several = arguments.positional
    first = int(bool(places) and places[0].name == "self")
    if len(places) == first + 1 and _is_list(places[first]) and (is_method or not first):
        gathered = _gathered(several[first:]) if arguments.are_all_positional else _gathered_last(arguments.last)
        if gathered is not None:
            matched[places[first].name] = gathered
        several = several[:first]
    if len(several) > len(places):
        return None
    matched |= {place.name: each for place, each in zip(places, several, strict=False)}
    names = {argument.name for argument in schema}
    for name, each in arguments.named.items():
        known = name if name in names else _RENAMED.get(name, "")
        if known not in names or known in matched:
            return None
        matched[known] = each
    if defaults and arguments.are_all_positional and arguments.are_all_named:
        for argument in schema:
            if argument.name not in matched and argument.has_default_value():
                matched[argument.name] = _default(target, argument)
    return matched


def _gathered(several: tuple[LazyArgument, ...]) -> LazyArgument | None:
    """Resolve a list argument whose items may also be passed one by one: ``x.view(2, 3)``."""
    if not several:
        return None
    found = [each() for each in several]
    if len(found) == 1 and not is_number(found[0].value):
        return several[0]
    return lambda: Resolved(items=tuple(found))


def _gathered_last(last: tuple[LazyArgument, ...]) -> LazyArgument | None:
    """Resolve such a list argument where only its last items are known."""
    return (lambda: Resolved(last=tuple(each() for each in last))) if last else None


def _is_list(argument: Any) -> bool:
    return str(argument.type) in ("List[int]", "List[SymInt]") and argument.N is None


def _default(target: Any, argument: Any) -> LazyArgument:
    # In Python a flag such as pin_memory defaults to False, where the operator's schema has None.
    value = False if argument.default_value is None and "bool" in str(argument.type) else argument.default_value
    return lambda: Resolved(value, DefaultOf(str(target), argument.name))


def _of_operator(
    point: ProgramPoint, target: Any, arguments: Mapping[str, Any], resolve: Resolve
) -> dict[str, Resolved]:
    kind = getattr(point.node, "op", None) or point.node.ops[0]  # type: ignore[attr-defined]
    schema = target._schema.arguments
    if name_of(target).removesuffix("_") not in _OPERATORS.get(type(kind), ()):
        return {}
    found: dict[str, Resolved] = {}
    numbers = [argument.name for argument in schema[:2] if is_number(arguments[argument.name])]
    if len(numbers) == 1:
        operands = [resolve(operand, point) for operand in operands_of(point.node)]
        number = [each for each in operands if is_same(each.value, arguments[numbers[0]])]
        if len(number) == 1:
            found[numbers[0]] = number[0]
    for argument in schema[2:]:
        if argument.has_default_value() and arguments[argument.name] == argument.default_value:
            found[argument.name] = _default(target, argument)()
    return found
