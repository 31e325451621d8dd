"""Spectral normalisation with PyTorch's semantics.

flax.nnx.SpectralNorm overwrites the kernel with the normalised one, normalises every parameter with two or more axes,
along the last, stores only u, and iterates in evaluation too.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx

from port.errors import UsageError
from port.nn.parametrized import Parametrized


class SpectralNorm(Parametrized):
    """torch.nn.utils.parametrizations.spectral_norm: the parameter divided by its largest singular value.

    The parameter is a matrix W with ``axis`` as rows and all other axes as columns; σ = uᵀ W v, with u and v from a
    power iteration without gradient, which takes ``n_power_iterations`` steps at each call in training. Formula:
    torch.nn.utils.parametrizations.spectral_norm's source (https://arxiv.org/abs/1802.05957).

    Args:
        layer: any nnx module.
        name: dotted path of the parameter in ``layer``.
        axis: of the rows; torch's ``dim=0`` of a linear layer's or convolution's weight is −1, the last, of the kernel.
        n_power_iterations: steps at each call.
        eps: lower bound of the norms that u and v are divided by.
        v_first: compute v ← Wᵀ u before u ← W v, as the older torch.nn.utils.spectral_norm does; it starts from random
            vectors, the newer one runs 15 iterations first.
        use_running_average: evaluation mode; set by ``model.eval()`` and ``model.train()``.
        rngs: for the initial u and v.

    Raises:
        UsageError: a parameter with fewer than two axes.
    """

    def __init__(
        self,
        layer: nnx.Module,
        name: str = "kernel",
        *,
        axis: int = -1,
        n_power_iterations: int = 1,
        eps: float = 1e-12,
        v_first: bool = False,
        use_running_average: bool = False,
        rngs: nnx.Rngs,
    ) -> None:
        super().__init__(layer, name)
        self.axis = axis
        self.n_power_iterations = n_power_iterations
        self.eps = eps
        self.v_first = v_first
        self.use_running_average = use_running_average
        if self.original.ndim < 2:
            raise UsageError(f"spectral norm needs a parameter with two axes: {name!r} has shape {self.original.shape}")
        matrix = self._matrix()
        u, v = (self._normalised(jax.random.normal(rngs.params(), (length,), matrix.dtype)) for length in matrix.shape)
        self.u, self.v = nnx.BatchStat(u), nnx.BatchStat(v)
        if not v_first:
            self._iterate(matrix, 15)

    def computed(self) -> jax.Array:
        matrix = self._matrix()
        if not self.use_running_average:
            self._iterate(jax.lax.stop_gradient(matrix), self.n_power_iterations)
        sigma = self.u[...] @ (matrix @ self.v[...])
        return self.original[...] / sigma

    def _iterate(self, matrix: jax.Array, times: int) -> None:
        u, v = self.u[...], self.v[...]
        for _ in range(times):
            if self.v_first:
                v = self._normalised(matrix.T @ u)
            u = self._normalised(matrix @ v)
            if not self.v_first:
                v = self._normalised(matrix.T @ u)
        self.u[...], self.v[...] = u, v

    def _matrix(self) -> jax.Array:
        kernel = jnp.moveaxis(self.original[...], self.axis, 0)
        return kernel.reshape(len(kernel), -1)

    def _normalised(self, vector: jax.Array) -> jax.Array:
        return vector / jnp.maximum(jnp.linalg.norm(vector), self.eps)

    def set_view(self, use_running_average: bool | None = None) -> None:
        """Called by `nnx.view`."""
        if use_running_average is not None:
            self.use_running_average = use_running_average
