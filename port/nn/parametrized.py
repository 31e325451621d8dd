"""A layer with one parameter computed from others: what torch.nn.utils.parametrizations makes of a layer."""

from __future__ import annotations

from typing import Any

import jax
from flax import nnx

from port.errors import UsageError
from port.nn.frozen import Frozen


class Parametrized(nnx.Module):
    """Around a layer: what it holds under ``name`` is the original, and it is called with what `computed` makes of it.

    flax.nnx.WeightNorm and SpectralNorm write the computed parameter over the original at every call, so that the
    gradient's step starts from another place than torch's; here the original stays.

    Args:
        layer: any nnx module.
        name: where it holds the parameter, dotted (``"kernel"``, ``"layer.kernel"``).

    Raises:
        UsageError: the layer has no such parameter.
    """

    def __init__(self, layer: nnx.Module, name: str = "kernel") -> None:
        self.layer = layer
        self.name = name
        if not isinstance(self._find(layer), nnx.Param):
            raise UsageError(f"{type(layer).__name__} has no parameter {name!r} to compute from another")

    @property
    def original(self) -> nnx.Param[jax.Array]:
        """The parameter that is trained."""
        return self._find(self.layer)

    def computed(self) -> jax.Array:
        """The parameter that the layer is called with."""
        raise NotImplementedError

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        """Call the layer with the computed parameter."""
        layer = nnx.clone(self.layer)
        self._find(layer)[...] = self.computed()
        result = layer(*inputs, **options)
        # A layer inside may have changed its own state: running statistics, random streams.
        nnx.update(self.layer, nnx.state(layer, nnx.Not(nnx.Any(nnx.Param, Frozen))))
        return result

    def _find(self, layer: nnx.Module) -> Any:
        found: Any = layer
        for attribute in self.name.split("."):
            found = getattr(found, attribute, None)
        return found
