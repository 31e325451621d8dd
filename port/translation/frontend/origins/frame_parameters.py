"""What the parameters of a running function were given, by the source of whoever called it."""

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
"""Frames between a function and itself, where torch calls it once more for a mode."""


class FrameParameters:
    """The parameters of frames, while they stay where they are.

    Args:
        files: that the frames' code stands in.
        resolve: what is known of an expression that stands at a point.
    """

    def __init__(self, files: SourceFiles, resolve: Callable[[ast.expr, ProgramPoint], Resolved]) -> None:
        self._files, self._resolve = files, resolve
        self._given: dict[int, Mapping[str, Given]] = {}

    def forget(self) -> None:
        """Frames go on: what was found of them holds no longer."""
        self._given.clear()

    def of(self, frame: FrameType) -> Mapping[str, Given]:
        """What the parameters of a frame's function were given, where the source of its caller says it."""
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
        """``f(x).split(3)``: a method of a tensor's that is written in Python."""
        match point.node:
            case ast.Call(ast.Attribute(_, name)):
                function = vars(torch.Tensor).get(name)
                if isinstance(function, FunctionType) and function.__code__ is frame.f_code:
                    return given_to_function(function, self.arguments(point).behind([Resolved()]))
        return {}

    def _given_by_super(self, frame: FrameType, point: ProgramPoint) -> Mapping[str, Given]:
        """``super().forward(x, 3)``."""
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
        """A number that an operator's method was given: ``__rsub__(self, 1)`` of ``1 - x``."""
        operands = [self._resolve(operand, point) for operand in operands_of(point.node)]

        def operand(value: Any) -> Resolved:
            found = [each for each in operands if each.origin is not None and is_same(each.value, value)]
            return found[0] if len(found) == 1 and is_number(value) else Resolved()

        given: dict[str, Given] = {}
        if operands and frame.f_code.co_filename.endswith("_tensor.py"):
            for name in frame.f_code.co_varnames[:2]:
                value = variable(frame, name)
                several = value if isinstance(value, tuple) else ()
                found = Resolved(items=tuple(map(operand, several))) if several else operand(value)
                given[name] = lambda found=found: found  # type: ignore[misc]
        return given

    def arguments(self, point: ProgramPoint) -> CallArguments:
        """The arguments of the call that a point is at."""
        assert isinstance(point.node, ast.Call)
        return call_arguments(point.node, lambda node: self._resolve(node, point))


def operands_of(node: ast.AST) -> list[ast.expr]:
    """What an operator is applied to."""
    match node:
        case ast.BinOp(left, _, right) | ast.Compare(left, [_], [right]):
            return [left, right]
        case ast.AugAssign(_, _, value):
            return [value]
    return []


def twin_of(frame: FrameType) -> FrameType | None:
    """The call of a torch function that torch called once more, for a mode to see it: the same code further out."""
    other = frame.f_back
    for _ in range(_TWIN):
        if other is None or is_users(other.f_code.co_filename):
            return None
        if other.f_code is frame.f_code:
            return other
        other = other.f_back
    return None
