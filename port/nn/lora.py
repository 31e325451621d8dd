"""Low-rank adaptation as PEFT computes it: `nnx.LoRA` with its scaling, and its dropout."""

from __future__ import annotations

from typing import Any

import jax
from flax import nnx

from port.nn.initializers import torch_kernel

A_START = torch_kernel()


class LoRA(nnx.LoRA):
    """``base(x) + scaling · dropout(x) A B``, in the base's dtype.

    `nnx.LoRA` has no scaling, and folded into B it would be another training: B's gradient is ``scaling`` times as
    large, its updates are not. So A and B stay what PEFT's are (transposed), and so do their gradients. They are
    `nnx.LoRAParam`: ``nnx.Optimizer(model, tx, wrt=nnx.LoRAParam)`` trains them alone.

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
        """Beside `nnx.LoRA`'s arguments, of which A begins as PEFT's does, U(−1/√in, 1/√in); B at zero:

        Args:
            scaling: LoRA's alpha / rank.
            dropout_rate: of what goes into A, in training.
            dropout_rngs: draw its masks; None: training without them is refused by `nnx.Dropout`, evaluation goes.
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
