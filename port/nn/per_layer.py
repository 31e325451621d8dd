"""A number that is another one in each layer of a stack."""

from __future__ import annotations

from flax import nnx


class PerLayer(nnx.Variable[nnx.variablelib.A]):
    """What the layers of a stack differ by: an index, a window, a share that drops. No weight: no file holds it.

    In the stack it has an element a layer; under `nnx.scan` each layer reads its own.
    """
