"""The optimizer of a training checkpoint, moved beside its weights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from port.mapping import Mapping
from port.optim.checkpoints import state_tensors
from port.optim.from_torch import optax_source, to_optax
from port.optim.layout import trained_entries
from port.optim.saved import read_optimizer
from port.weights.nesting import nested
from port.weights.tensors import Tensor

if TYPE_CHECKING:
    import torch


class MovedOptimizer:
    """Called with the mapping of the weights, it gives the tensors that belong beside them.

    Attributes:
        place: where in the checkpoint it is.
        step: how many updates the checkpoint has behind it.
        source: the transformation as source, once it has been called.

    Raises:
        BrokenWeights, UsageError, WeightsMismatch: as `read_optimizer`.
    """

    def __init__(self, path: Path, optimizer: Any, model: torch.nn.Module, *, key: str | None = None) -> None:
        saved = read_optimizer(path, optimizer, model, key=key)
        self.optimizer, self.place, self.step = saved.optimizer, saved.place, saved.step
        self.source = ""

    def __call__(self, mapping: Mapping) -> list[Tensor]:
        with jax.enable_x64(True):  # a float64 moment stays one
            params = self._parameters(mapping)
            _, state = to_optax(self.optimizer, params=params, mapping=mapping)
            self.source = optax_source(self.optimizer, params=params, mapping=mapping)
            return state_tensors(state, self.step)

    def _parameters(self, mapping: Mapping) -> Any:
        """Flax parameters of the shapes and dtypes that the weights have; their values do not matter."""
        from port.weights.torch import numpy_dtype

        dtypes = {
            name: numpy_dtype(parameter.dtype)
            for group in self.optimizer.param_groups
            for name, parameter in zip(group["param_names"], group["params"], strict=True)
        }
        return nested(
            {
                target: jnp.zeros(shape, dtypes.get(entry.sources[0], jnp.float32))
                for entry in trained_entries(mapping)
                for target, shape in zip(entry.targets, entry.target_shapes(), strict=True)
            }
        )
