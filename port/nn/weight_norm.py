"""Weight normalisation with PyTorch's semantics.

flax.nnx.WeightNorm overwrites the direction with the normalised kernel, and adds an epsilon to the squared norm, where
torch adds none; at least up to flax 0.12.8 its scales are plain arrays, which no optimizer updates.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx

from port.nn.parametrized import Parametrized


class WeightNorm(Parametrized):
    """torch.nn.utils.parametrizations.weight_norm: the parameter is scale · direction / ‖direction‖.

    The direction is the layer's own parameter; the scale is held here, initially the parameter's norm, so that wrapping
    does not change the function. Formula: torch.nn.utils.parametrizations.weight_norm's documentation
    (https://arxiv.org/abs/1602.07868).

    Args:
        layer: any nnx module.
        name: dotted path of the parameter in ``layer``.
        axis: one norm for each index of this axis, over all other axes; None for one norm over everything.
            torch's ``dim=0`` of a linear layer's or a convolution's weight is −1, the last, of the kernel.
    """

    def __init__(self, layer: nnx.Module, name: str = "kernel", *, axis: int | None = -1) -> None:
        super().__init__(layer, name)
        self.axis = axis
        self.scale = nnx.Param(self._norm())

    def computed(self) -> jax.Array:
        return self.original[...] * (self.scale[...] / self._norm())

    def _norm(self) -> jax.Array:
        direction = self.original[...]
        if self.axis is None:
            return jnp.sqrt(jnp.square(direction).sum())
        others = tuple(axis for axis in range(direction.ndim) if axis != self.axis % direction.ndim)
        return jnp.sqrt(jnp.square(direction).sum(others, keepdims=True))
