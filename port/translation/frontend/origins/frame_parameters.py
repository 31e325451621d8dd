"""Resolve the arguments of a running function from its caller's source."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from types import FrameType, FunctionType
from typing import Any

import torch

from port.translation.frontend.origins.called_with import CallArguments, Given, call_arguments, given_to_function
from port.translation.frontend.origins.executing import ProgramPoint, SourceFiles
from port.translation.frontend.origins.frame_objects import MISSING, code_of, variable
from port.translation.frontend.origins.resolved import Resolved
from port.translation.frontend.origins.worked_out import is_number
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
        self._given: dict[int, Mapping[str, Given]] = {}

    def forget(self) -> None:
        """Drop the cache, before frames continue and it goes stale."""
        self._given.clear()

    def of(self, frame: FrameType) -> Mapping[str, Given]:
        """Return the arguments of a frame's function by parameter name, as far as its caller's source shows them."""
        if id(frame) not in self._given:
            self._given[id(frame)] = self._given_by_caller(frame)
        return self._given[id(frame)]

    def _given_by_caller(self, frame: FrameType) -> Mapping[str, Given]:
        point = None if frame.f_back is None else self._files.point(frame.f_back)
        if point is None:
            return {}
        if not isinstance(point.node, ast.Call):
            return self._given_by_operator(frame, point)
        found = code_of(self._resolve(point.node.func, point).value)
        if found is not None and found[0].__code__ is frame.f_code:
            arguments = self.arguments(point).behind([Resolved(each) for each in found[1]])
            return given_to_function(found[0], arguments)
        return self._given_by_super(frame, point) or self._given_to_tensor(frame, point)

    def _given_to_tensor(self, frame: FrameType, point: ProgramPoint) -> Mapping[str, Given]:
        """Resolve ``f(x).split(3)``: a method of torch.Tensor that is written in Python."""
        match point.node:
            case ast.Call(ast.Attribute(_, name)):
                function = vars(torch.Tensor).get(name)
                if isinstance(function, FunctionType) and function.__code__ is frame.f_code:
                    return given_to_function(function, self.arguments(point).behind([Resolved()]))
        return {}

    def _given_by_super(self, frame: FrameType, point: ProgramPoint) -> Mapping[str, Given]:
        """Resolve ``super().forward(x, 3)``."""
        match point.node:
            case ast.Call(ast.Attribute(ast.Call(ast.Name("super")), name)) if name == frame.f_code.co_name:
                own = frame.f_code.co_varnames[:1]
                module = variable(frame, own[0]) if own else MISSING
                found = [vars(cls)[name] for cls in type(module).__mro__ if name in vars(cls)]
                found = [each for each in found if getattr(each, "__code__", None) is frame.f_code]
                if found and module is variable(point.here.frame, point.here.frame.f_code.co_varnames[0]):
                    return given_to_function(found[0], self.arguments(point).behind([Resolved(module)]))
        return {}

    def _given_by_operator(self, frame: FrameType, point: ProgramPoint) -> Mapping[str, Given]:
        """Resolve the operands of an operator's method: ``__rsub__(self, 1)`` for ``1 - x``."""
        operands = [self._resolve(operand, point) for operand in operands_of(point.node)]

        def operand(value: Any) -> Resolved:
            found = [each for each in operands if each.origin is not None and is_same(each.value, value)]
            return found[0] if len(found) == 1 and is_number(value) else Resolved()

        resolved: dict[str, Given] = {}
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
