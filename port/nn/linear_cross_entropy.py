"""A linear layer fused with its cross entropy, which need not hold all logits at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from port.errors import UsageError
from port.nn.functional import linear_cross_entropy
from port.nn.functional.reduction import check_reduction
from port.nn.initializers import torch_bias, torch_kernel


class LinearCrossEntropyLoss(nnx.Module):
    """torch.nn.LinearCrossEntropyLoss, classes last.

    The columns of ``linear``'s kernel are in torch's order, classes before positions; the logits have the classes last.
    Source: torch.nn.LinearCrossEntropyLoss's documentation; initial values as torch's.

    Args:
        in_features: the length of an input.
        num_classes: C.
        out_features: shape of the positions of a row, each with a class; one position by default.
        use_bias: add a bias to the logits (torch's ``bias``).
        weight: a factor for each class, (C,); kept as a buffer as in torch, not trained.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        ignore_index: the label of rows to leave out; None for −100.
        label_smoothing: the fraction of the target that is spread evenly over the classes.
        chunk_size: rows whose logits exist at the same time, ``"auto"`` or None, as in `linear_cross_entropy`; torch
            takes it in ``options``.
        dtype: of the computation; None promotes the dtypes of input and parameters.
        param_dtype: of kernel, bias and class weights.
        rngs: for the initial values.

    Raises:
        UsageError: an unknown reduction, smoothing out of range, or class weights of a wrong shape.
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: Sequence[int] = (),
        use_bias: bool = False,
        weight: Any = None,
        reduction: str = "mean",
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        chunk_size: int | str | None = None,
        dtype: Any = None,
        param_dtype: Any = jnp.float32,
        rngs: nnx.Rngs,
    ) -> None:
        check_reduction(reduction)
        if not 0 <= label_smoothing <= 1:
            raise UsageError(f"label_smoothing is between 0 and 1, got {label_smoothing}")
        if weight is not None and np.shape(weight) != (num_classes,):
            raise UsageError(
                f"class weights of {num_classes} classes need shape ({num_classes},), got {np.shape(weight)}"
            )
        self.linear = nnx.Linear(
            in_features,
            math.prod(out_features, start=num_classes),
            use_bias=use_bias,
            kernel_init=torch_kernel(),
            bias_init=torch_bias(in_features),
            dtype=dtype,
            param_dtype=param_dtype,
            rngs=rngs,
        )
        self.weight: Any = nnx.data(None) if weight is None else nnx.BatchStat(jnp.asarray(weight, param_dtype))
        self.num_classes = num_classes
        self.out_features = tuple(out_features)
        self.reduction = reduction
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.chunk_size = chunk_size
        self.dtype = dtype

    def __call__(self, input: jax.Array, target: jax.Array) -> jax.Array:
        """Return the loss.

        Args:
            input: (…, in_features).
            target: labels (…, *out_features), or probabilities (…, *out_features, C).
        """
        bias = None if self.linear.bias is None else self._classes_last(self.linear.bias[...])
        return linear_cross_entropy(
            input if self.dtype is None else input.astype(self.dtype),
            self._classes_last(self.linear.kernel[...]),
            target,
            linear_bias=bias,
            weight=None if self.weight is None else self.weight[...],
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            chunk_size=self.chunk_size,
        )

    def _classes_last(self, parameter: jax.Array) -> jax.Array:
        """(…, C · ∏ out_features) → (…, *out_features, C)."""
        parameter = parameter if self.dtype is None else parameter.astype(self.dtype)
        leading = parameter.shape[:-1]
        return jnp.moveaxis(parameter.reshape(*leading, self.num_classes, *self.out_features), len(leading), -1)
