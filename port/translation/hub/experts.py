"""Mixtures of experts of ``transformers``: tokens sorted by their expert, each group multiplied with its own matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from port.pairs import OperatorPair, register
from port.pairs.registered import registered

if TYPE_CHECKING:
    import torch

IMPLEMENTATION = "port_grouped"
"""The name under which `experts_forward` is registered with ``transformers``. Of the implementations there, one loops
over values; ``grouped_mm`` does not support float64, and counts tokens differently on the meta device."""
GROUPED = OperatorPair.of(
    "torch.ops.transformers.grouped_mm_fallback(input, weight, offs)",
    "lax.ragged_dot(input, weight, jnp.diff(offs, prepend=0))",
)
"""Rows ``offs[e - 1]:offs[e]`` of the input (tokens, in) times the e-th matrix of the weight (experts, in, out)."""


def with_grouped_experts(model_class: Any, configs: list[Any]) -> None:
    """Make a model's experts, if it has any, compute by `experts_forward`.

    Args:
        model_class: a class of ``transformers``.
        configs: its configuration and the nested ones; changed in place.
    """
    if not model_class._can_set_experts_implementation():
        return
    from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

    ALL_EXPERTS_FUNCTIONS.register(IMPLEMENTATION, experts_forward)
    for one in configs:
        one._experts_implementation = IMPLEMENTATION
    if GROUPED not in registered(OperatorPair):
        register(GROUPED)


def experts_forward(
    experts: Any, hidden_states: torch.Tensor, top_k_index: torch.Tensor, top_k_weights: torch.Tensor
) -> torch.Tensor:
    """Return the weighted sum of the outputs of each token's experts.

    Args:
        experts: a layer of ``transformers`` with ``use_experts_implementation``; its attributes say how its weights are
            stored.
        hidden_states: (tokens, width).
        top_k_index: (tokens, k), the experts of each token.
        top_k_weights: (tokens, k), the weights of these experts.

    Returns:
        (tokens, width).
    """
    import torch

    expert, order = top_k_index.reshape(-1).sort()
    every_expert = torch.arange(experts.num_experts, device=expert.device)
    ends = torch.searchsorted(expert, every_expert, right=True)
    rows = hidden_states[order // top_k_index.shape[-1]]
    if experts.has_gate:
        rows = experts._apply_gate(_grouped(experts, "gate_up_proj", rows, expert, ends))
    else:
        rows = experts.act_fn(_grouped(experts, "up_proj", rows, expert, ends))
    rows = _grouped(experts, "down_proj", rows, expert, ends)
    if experts.has_post_expert_norm:
        rows = experts.post_expert_norm(rows)
    rows = rows * top_k_weights.reshape(-1)[order][:, None]
    return rows[order.argsort()].reshape(*top_k_index.shape, -1).sum(1).to(hidden_states.dtype)


def _grouped(experts: Any, name: str, rows: torch.Tensor, expert: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """Multiply rows, sorted by their expert, with the matrix of their expert."""
    import torch

    weight = getattr(experts, name)
    weight = weight if experts.is_transposed else weight.mT
    made: torch.Tensor = torch.ops.transformers.grouped_mm_fallback(rows, weight, ends)
    return made + getattr(experts, f"{name}_bias")[expert] if experts.has_bias else made
