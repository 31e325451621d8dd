"""A tensor that a module holds and does not train."""

from __future__ import annotations

from flax import nnx


class Buffer(nnx.Variable[nnx.variablelib.A]):
    """The counterpart of torch's ``register_buffer``: a table, a mask, a count. Not an `nnx.Param`, so not trained."""
