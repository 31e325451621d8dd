"""A state: who has whom, and what was decided of some nodes."""

from __future__ import annotations

from port.matching.options import Option
from port.matching.state import Decision, State

from .chains import unit

A, B = (unit("a", weight=(1,)),), (unit("b", weight=(1,)),)
X, Y = (unit("x", kernel=(1,)),), (unit("y", kernel=(1,)),)


def test_a_state_is_changed_by_making_another() -> None:
    state = State({X: Decision(Option(A, X, ()), "order")})
    more = state.decided({Y: Decision(Option(B, Y, ()), "name")})
    assert (state.torch(X), state.torch(Y)) == (A, None) and (more.holder(A), more.holder(B)) == (X, Y)
    assert more.without({X}).holder(A) is None and more.without({X}).torch(Y) == B
