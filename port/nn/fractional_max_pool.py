"""Max pooling over randomly placed windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from port.nn.functional.max_pooling import Pooled, fractional_max_pool
from port.nn.functional.windows import Sizes
from port.nn.random_stream import Stream, draw_key, own_stream


class FractionalMaxPool(nnx.Module):
    """torch.nn.FractionalMaxPool2d and 3d, channels last: (N, *spatial, C) → (N, *output, C).

    Windows are redrawn at each call, in evaluation too, as in torch; the draw is JAX's own. With ``random_samples`` the
    windows are fixed, and the same as torch's.

    Args:
        kernel_size: the window, a number for each spatial axis.
        output_size: windows along each spatial axis.
        output_ratio: alternatively, ``output_size`` as a fraction of the input's length.
        return_indices: return (values, indices).
        random_samples: (N, C, spatial axes) in [0, 1), torch's ``_random_samples``.
        rng_collection: the stream's name.
        rngs: source of the windows; may be passed at the call instead.
    """

    def __init__(
        self,
        kernel_size: Sequence[int],
        output_size: Sizes | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        *,
        random_samples: Any = None,
        rng_collection: str = "dropout",
        rngs: nnx.Rngs | nnx.RngStream | None = None,
    ) -> None:
        self.kernel_size = tuple(kernel_size)
        self.output_size = output_size
        self.output_ratio = output_ratio
        self.return_indices = return_indices
        self.random_samples: Any = (
            nnx.data(None) if random_samples is None else nnx.BatchStat(jnp.asarray(random_samples))
        )
        self.rng_collection = rng_collection
        self.rngs = own_stream(rngs, rng_collection)

    def __call__(self, input: jax.Array, *, rngs: Stream = None) -> Pooled:
        """Pool. ``rngs`` may also be a key.

        Raises:
            UsageError: sizes that do not fit the input, or no rngs.
        """
        if self.random_samples is not None:
            samples = self.random_samples[...]
        else:
            key = draw_key(rngs, self.rngs, self.rng_collection, type(self).__name__)
            spatial = len(self.kernel_size)
            batch = input.shape[0] if input.ndim == spatial + 2 else 1
            samples = jax.random.uniform(key, (batch, input.shape[-1], spatial), input.dtype)
        return fractional_max_pool(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            random_samples=samples,
        )
