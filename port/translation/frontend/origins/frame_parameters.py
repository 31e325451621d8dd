"""Resolve the arguments of a running function from its caller's source."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from types import FrameType, FunctionType
from typing import Any

import torch

from port.translation.frontend.origins.arithmetic import is_number
from port.translation.frontend.origins.call_arguments import (
    CallArguments,
    LazyArgument,
    call_arguments,
    function_arguments,
)
from port.translation.frontend.origins.executing import ProgramPoint, SourceFiles
from port.translation.frontend.origins.frame_objects import MISSING, code_of, variable
from port.translation.frontend.origins.resolved import Resolved
from port.translation.frontend.source_locations import is_users
from port.translation.ir.number import is_same

_TWIN = 24
"""The most frames between a torch function and torch's second call of it under a mode."""


class FrameParameters:
    """The parameters of frames, cached until `forget` is called.

    Args:
        files: the source files of the frames' code.
        resolve: resolves an expression at a point.
    """

    def __init__(self, files: SourceFiles, resolve: Callable[[ast.expr, ProgramPoint], Resolved]) -> None:
        self._files, self._resolve = files, resolve
        self._known: dict[int, Mapping[str, LazyArgument]] = {}

    def forget(self) -> None:
        """Drop the cache, before frames continue and it goes stale."""
        self._known.clear()

    def of(self, frame: FrameType) -> Mapping[str, LazyArgument]:
        """Return the arguments of a frame's function by parameter name, as far as its caller's source shows them."""
        if id(frame) not in self._known:
            self._known[id(frame)] = self._from_caller(frame)
        return self._known[id(frame)]

    def _from_caller(self, frame: FrameType) -> Mapping[str, LazyArgument]:
        point = None if frame.f_back is None else self._files.point(frame.f_back)
        if point is None:
            return {}
        if not isinstance(point.node, ast.Call):
            return self._from_operator(frame, point)
        found = code_of(self._resolve(point.node.func, point).value)
        if found is not None and found[0].__code__ is frame.f_code:
            arguments = self.arguments(point).preceded_by([Resolved(each) for each in found[1]])
            return function_arguments(found[0], arguments)
        return self._from_super_call(frame, point) or self._from_tensor_method(frame, point)

    def _from_tensor_method(self, frame: FrameType, point: ProgramPoint) -> Mapping[str, LazyArgument]:
        """Resolve ``f(x).split(3)``: a method of torch.Tensor that is written in Python."""
        match point.node:
            case ast.Call(ast.Attribute(_, name)):
                function = vars(torch.Tensor).get(name)
                if isinstance(function, FunctionType) and function.__code__ is frame.f_code:
                    return function_arguments(function, self.arguments(point).preceded_by([Resolved()]))
        return {}

    def _from_super_call(self, frame: FrameType, point: ProgramPoint) -> Mapping[str, LazyArgument]:
        """Resolve ``super().forward(x, 3)``."""
        match point.node:
            case ast.Call(ast.Attribute(ast.Call(ast.Name("super")), name)) if name == frame.f_code.co_name:
                own = frame.f_code.co_varnames[:1]
                module = variable(frame, own[0]) if own else MISSING
                found = [vars(cls)[name] for cls in type(module).__mro__ if name in vars(cls)]
                found = [each for each in found if getattr(each, "__code__", None) is frame.f_code]
                if found and module is variable(point.here.frame, point.here.frame.f_code.co_varnames[0]):
                    return function_arguments(found[0], self.arguments(point).preceded_by([Resolved(module)]))
        return {}

    def _from_operator(self, frame: FrameType, point: ProgramPoint) -> Mapping[str, LazyArgument]:
        """Resolve the operands of an operator's method: ``__rsub__(self, 1)`` for ``1 - x``."""
        operands = [self._resolve(operand, point) for operand in operands_of(point.node)]

        def operand(value: Any) -> Resolved:
            found = [each for each in operands if each.origin is not None and is_same(each.value, value)]
            return found[0] if len(found) == 1 and is_number(value) else Resolved()

        resolved: dict[str, LazyArgument] = {}
        if operands and frame.f_code.co_filename.endswith("_tensor.py"):
            for name in frame.f_code.co_varnames[:2]:
                value = variable(frame, name)
                several = value if isinstance(value, tuple) else ()
                found = Resolved(items=tuple(map(operand, several))) if several else operand(value)
                resolved[name] = lambda found=found: found  # type: ignore[misc]
        return resolved

    def arguments(self, point: ProgramPoint) -> CallArguments:
        """Return the arguments of the call at a point."""
        assert isinstance(point.node, ast.Call)
        return call_arguments(point.node, lambda node: self._resolve(node, point))


def operands_of(node: ast.AST) -> list[ast.expr]:
    """Return the operands of an operator; empty for any other node."""
    match node:
        case ast.BinOp(left, _, right) | ast.Compare(left, [_], [right]):
            return [left, right]
        case ast.AugAssign(_, _, value):
            return [value]
    return []


def twin_of(frame: FrameType) -> FrameType | None:
    """Return the outer frame of a torch function that torch calls again under a mode; None where there is none."""
    other = frame.f_back
    for _ in range(_TWIN):
        if other is None or is_users(other.f_code.co_filename):
            return None
        if other.f_code is frame.f_code:
            return other
        other = other.f_back
    return None
