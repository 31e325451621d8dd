"""Mixtures of experts of ``transformers``: tokens sorted by their expert, each group multiplied with its own matrix."""

from __future__ import annotations

from typing import Any

from port.pairs import OperatorPair, register
from port.pairs.registered import registered

IMPLEMENTATION = "grouped_mm"
"""Of the ways that `transformers` offers the one without a loop over values. Captured by `torch.export` in float32 and
float64 it is an operator of its own (``transformers.integrations.moe``)."""
GROUPED = OperatorPair.of(
    "torch.ops.transformers.grouped_mm_fallback(input, weight, offs)",
    "lax.ragged_dot(input, weight, jnp.diff(offs, prepend=0))",
)
"""Rows ``offs[e - 1]:offs[e]`` of the input (tokens, in) times the e-th matrix of the weight (experts, in, out)."""


def with_grouped_experts(model_class: Any, configs: list[Any]) -> None:
    """Let a model's experts compute so, where it has any.

    Args:
        model_class: of ``transformers``.
        configs: its configuration, and those within; they are changed.
    """
    if not model_class._can_set_experts_implementation():
        return
    for one in configs:
        one._experts_implementation = IMPLEMENTATION
    if GROUPED not in registered(OperatorPair):
        register(GROUPED)
