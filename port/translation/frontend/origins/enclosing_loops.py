"""Iteration counts of the loops that enclose a module's call: ``for _ in range(self.depth): x = self.layer(x)``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import FrameType

from port.translation.frontend.origins.arithmetic import is_number
from port.translation.frontend.origins.executing import ProgramPoint
from port.translation.frontend.origins.frame_objects import variable
from port.translation.frontend.origins.number_origins import NumberOrigins
from port.translation.frontend.source_locations import is_users
from port.translation.ir.number import ROUNDS, KnownNumber, Path


def enclosing_loop_counts(frame: FrameType, origins: NumberOrigins) -> dict[Path, KnownNumber]:
    """Return the iteration counts of the loops around a call, innermost first.

    Only loops within the root's ``forward`` count, whose number of iterations has a known origin.

    Args:
        frame: the frame of the function that replaces the module's ``forward``.
        origins: finds origins in the running module.
    """
    found = (known for point in _points(frame, origins) for known in _of_loops(point, origins))
    return {(ROUNDS, place): known for place, known in enumerate(found)}


def _points(frame: FrameType, origins: NumberOrigins) -> list[ProgramPoint]:
    """Return the points of a frame's callers in user code, up to the root's ``forward``; empty outside of it."""
    points, here = [], frame.f_back
    while here is not None:
        if is_users(here.f_code.co_filename):
            point = origins.files.point(here)
            points += [] if point is None else [point]
            own = here.f_code.co_varnames[:1]
            if here.f_code.co_name == "forward" and own and origins.paths.of(variable(here, own[0])) == "":
                return points
        here = here.f_back
    return []


def _of_loops(point: ProgramPoint, origins: NumberOrigins) -> Iterator[KnownNumber]:
    inside, node = point.node, point.here.file.parents.get(point.node)
    while node is not None and inside is not point.here.scope:
        match node:
            case ast.For(iter=ast.Call(ast.Name("range"), [rounds], [])) if inside in node.body:
                known = origins.resolve(rounds, point.at(node))
                if known.origin is not None and is_number(known.value):
                    yield KnownNumber(known.value, known.origin)
        inside, node = node, point.here.file.parents.get(node)
