"""Idle parameters: those that no output depends on, in evaluation or in training."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from port.matching.sides import Sides
    from port.parity.sides.calls import Arrays

FEW = 8
"""The largest number of parameters that are tested one by one."""

_FILLS = (float("nan"), 0.75)
"""Their test values: NaN propagates through all arithmetic, the other number through operations that drop NaN."""

Outputs = Callable[[dict[str, float], bool], "Arrays"]
"""A model's outputs when some of its tensors are filled with one number; in training or not."""


def idle(outputs: Outputs, names: Collection[str]) -> frozenset[str]:
    """Find the tensors that can hold any numbers without changing the model's outputs in either mode.

    Args:
        outputs: the model's outputs as a function of its tensors.
        names: the names of floating tensors.
    """
    if not names:
        return frozenset()
    usual = {training: outputs({}, training) for training in (False, True)}

    def is_idle(chosen: Collection[str]) -> bool:
        return all(
            _same(outputs(dict.fromkeys(chosen, number), training), before)
            for training, before in usual.items()
            for number in _FILLS
        )

    if is_idle(names):
        return frozenset(names)
    # If many are left over, most of them only lack their twin.
    return frozenset(name for name in names if is_idle((name,))) if 1 < len(names) <= FEW else frozenset()


def _same(one: Arrays, other: Arrays) -> bool:
    return one.keys() == other.keys() and all(
        np.array_equal(array, other[name], equal_nan=array.dtype.kind in "fc") for name, array in one.items()
    )


def torch_outputs(sides: Sides) -> Outputs:
    """torch's outputs, for `idle`."""
    return lambda filled, training: sides.torch.outputs_with(filled, sides.inputs, training=training)


def flax_outputs(sides: Sides) -> Outputs:
    """Flax's outputs, for `idle`."""
    side = sides.flax

    def outputs(filled: dict[str, float], training: bool) -> Arrays:
        import jax.numpy as jnp

        values = {path: jnp.full_like(side.variables[path], number) for path, number in filled.items()}
        return side.calls_with(values, sides.flax_inputs, training=training).outputs

    return outputs
