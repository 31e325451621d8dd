"""The modules that a module holds, in the order of its constructor."""

from __future__ import annotations

from flax import nnx

from port.nn import named_children


class Held(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.second = nnx.Linear(2, 3, rngs=rngs)
        self.activation = nnx.relu
        self.first = nnx.Sequential(nnx.Linear(3, 2, rngs=rngs))
        self.width = 3
        self.scale = nnx.Param(rngs.params())


def test_modules_alone_in_the_order_in_which_they_were_assigned() -> None:
    module = Held(nnx.Rngs(0))
    assert named_children(module) == [("second", module.second), ("first", module.first)]
