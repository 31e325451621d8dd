"""Choose one form for each length in a body."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from itertools import zip_longest

from port.translation.ir import syntax
from port.translation.structure.said_lengths import settled, without_unread_lengths
from port.translation.structure.written_body import Body


def with_lengths_settled(body: Body, read: Collection[str] = ()) -> Body:
    """Choose one form for each length of a body, and name only lengths that are read.

    Args:
        body: the body as it was written.
        read: names that are also read elsewhere, such as by conditions around it.
    """
    returns = None if body.returns is None else settled(body.returns)
    every = tuple(map(settled, body.statements))
    places = {id(statement): place for statement, place in zip_longest(every, body.places)}
    names = tuple(map(syntax.Name, sorted(read)))
    statements = without_unread_lengths(every, syntax.Tuple((returns, *names)) if names and returns else returns)
    return replace(
        body, statements=statements, returns=returns, places=tuple(places.get(id(each)) for each in statements)
    )
