"""Mixtures of experts of ``transformers``: tokens sorted by their expert, each group multiplied with its own matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from port.pairs import OperatorPair, register
from port.pairs.registered import registered

if TYPE_CHECKING:
    import torch

IMPLEMENTATION = "port_grouped"
"""What the function here is called among the ways that ``transformers`` computes experts. Of its own, one loops over
values; ``grouped_mm`` runs in no float64, and counts tokens otherwise on the meta device than on any other."""
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
    from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

    ALL_EXPERTS_FUNCTIONS.register(IMPLEMENTATION, experts_forward)
    for one in configs:
        one._experts_implementation = IMPLEMENTATION
    if GROUPED not in registered(OperatorPair):
        register(GROUPED)


def experts_forward(
    experts: Any, hidden_states: torch.Tensor, top_k_index: torch.Tensor, top_k_weights: torch.Tensor
) -> torch.Tensor:
    """What the experts make of tokens, each of those that were chosen for it by its weight.

    Args:
        experts: a layer of ``transformers`` with ``use_experts_implementation``; it says how its weights lie.
        hidden_states: (tokens, width).
        top_k_index: (tokens, k), the experts of each token.
        top_k_weights: (tokens, k), theirs.

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
    """Rows, sorted by their expert, times the matrix of each."""
    import torch

    weight = getattr(experts, name)
    weight = weight if experts.is_transposed else weight.mT
    made: torch.Tensor = torch.ops.transformers.grouped_mm_fallback(rows, weight, ends)
    return made + getattr(experts, f"{name}_bias")[expert] if experts.has_bias else made
