"""Base class of layers with a computed parameter, as from torch.nn.utils.parametrizations."""

from __future__ import annotations

from typing import Any

import jax
from flax import nnx

from port.errors import UsageError
from port.nn.frozen import Frozen


class Parametrized(nnx.Module):
    """Wrap a layer: its parameter ``name`` is the original, and the layer is called with `computed` in its place.

    flax.nnx.WeightNorm and SpectralNorm overwrite the original with the computed parameter at every call, so that an
    optimizer step starts from a different point than torch's; here the original is kept.

    Args:
        layer: any nnx module.
        name: dotted path of the parameter (``"kernel"``, ``"layer.kernel"``).

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
        """The trained parameter."""
        return self._find(self.layer)

    def computed(self) -> jax.Array:
        """Compute the parameter that the layer is called with."""
        raise NotImplementedError

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        """Call the layer with the computed parameter."""
        layer = nnx.clone(self.layer)
        self._find(layer)[...] = self.computed()
        result = layer(*inputs, **options)
        # The call may have changed the layer's state: running statistics, random streams.
        nnx.update(self.layer, nnx.state(layer, nnx.Not(nnx.Any(nnx.Param, Frozen))))
        return result

    def _find(self, layer: nnx.Module) -> Any:
        found: Any = layer
        for attribute in self.name.split("."):
            found = getattr(found, attribute, None)
        return found
