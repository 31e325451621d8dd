"""Bodies whose lengths are said in one way."""

from __future__ import annotations

from dataclasses import replace

from port.translation.structure.body import Body
from port.translation.structure.said_lengths import settled, without_unread_lengths


def with_lengths_settled(body: Body) -> Body:
    """A body whose lengths are said in one way, and that names those alone that it reads."""
    returns = None if body.returns is None else settled(body.returns)
    statements = without_unread_lengths(tuple(map(settled, body.statements)), returns)
    return replace(body, statements=statements, returns=returns, places=())
