"""The bilinear layer, which Flax lacks."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from port.nn.initializers import torch_bias


class Bilinear(nnx.Module):
    """torch.nn.Bilinear: y = x1ᵀ A x2 + b, (…, in1) and (…, in2) → (…, out).

    Initial values: U(−1/√in1, 1/√in1), kernel and bias. Source: torch.nn.Bilinear's documentation.

    Args:
        in1_features: features of the first input.
        in2_features: features of the second.
        out_features: features of the result.
        bias: learn a shift per output feature.
        dtype: of the computation; None promotes the dtypes of inputs and parameters.
        param_dtype: of kernel (in1, in2, out) and bias.
        kernel_metadata: of the kernel, from `port.nn.logical_axes`.
        bias_metadata: of the bias.
        rngs: for the initial values.
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        *,
        dtype: Any = None,
        param_dtype: Any = jnp.float32,
        kernel_metadata: Mapping[str, Any] = MappingProxyType({}),
        bias_metadata: Mapping[str, Any] = MappingProxyType({}),
        rngs: nnx.Rngs,
    ) -> None:
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.dtype = dtype
        draw = torch_bias(in1_features)
        shape = (in1_features, in2_features, out_features)
        self.kernel = nnx.Param(draw(rngs.params(), shape, param_dtype), **kernel_metadata)
        self.bias: Any = nnx.data(None)
        if bias:
            self.bias = nnx.Param(draw(rngs.params(), (out_features,), param_dtype), **bias_metadata)

    def __call__(self, x1: jax.Array, x2: jax.Array) -> jax.Array:
        """Apply the layer to inputs that have the same axes before the last."""
        dtype = self.dtype or jnp.result_type(x1, x2, self.kernel[...])
        x1, x2, kernel = (value.astype(dtype) for value in (x1, x2, self.kernel[...]))
        y = jnp.einsum("...i,ijo,...j->...o", x1, kernel, x2)
        return y if self.bias is None else y + self.bias[...].astype(dtype)
