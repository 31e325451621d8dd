"""Low-rank adaptation as in PEFT: `nnx.LoRA` with scaling and dropout."""

from __future__ import annotations

from typing import Any

import jax
from flax import nnx

from port.nn.initializers import torch_kernel

A_START = torch_kernel()


class LoRA(nnx.LoRA):
    """``base(x) + scaling · dropout(x) A B``, in the base's dtype.

    `nnx.LoRA` has no scaling. Folding it into B would change training: B's gradient would scale, its updates would not.
    So A and B, and their gradients, equal PEFT's (transposed). They are `nnx.LoRAParam`:
    ``nnx.Optimizer(model, tx, wrt=nnx.LoRAParam)`` trains only them.

    Formula: `peft.tuners.lora.layer.Linear.forward`.
    """

    def __init__(
        self,
        in_features: int,
        lora_rank: int,
        out_features: int,
        *,
        scaling: float = 1.0,
        dropout_rate: float = 0.0,
        dropout_rngs: nnx.Rngs | None = None,
        rngs: nnx.Rngs,
        a_initializer: jax.nn.initializers.Initializer = A_START,
        **options: Any,
    ) -> None:
        """Initialise A as PEFT does, U(−1/√in, 1/√in), and B with zeros.

        Args:
            in_features: length of an input.
            lora_rank: rank of A B.
            out_features: length of an output.
            scaling: LoRA's alpha / rank.
            dropout_rate: of A's input, in training.
            dropout_rngs: for the masks; with None `nnx.Dropout` raises in training, evaluation works.
            rngs: for the initial values.
            a_initializer: draws A.
            **options: further arguments of `nnx.LoRA`.
        """
        super().__init__(in_features, lora_rank, out_features, rngs=rngs, a_initializer=a_initializer, **options)
        self.scaling = scaling
        self.dropout = nnx.Dropout(dropout_rate, rngs=dropout_rngs) if dropout_rate else None

    def __call__(self, x: jax.Array, **kwargs: Any) -> jax.Array:  # (…, in) → (…, out)
        into = x if self.dropout is None else self.dropout(x)
        into, lora_a, lora_b = self.promote_dtype((into, self.lora_a[...], self.lora_b[...]), dtype=self.dtype)
        added = (into @ lora_a @ lora_b) * self.scaling
        if self.base_module is None:
            return added
        base = self.base_module(x, **kwargs)
        return (base + added).astype(base.dtype)
