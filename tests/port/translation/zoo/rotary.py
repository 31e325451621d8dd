"""Rotary position embeddings: tables of cosines and sines, in halves and interleaved, and complex numbers."""

from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from .example import Example, floats, given


def rotate_half(x: Tensor) -> Tensor:
    """Rotates half the hidden dims of the input."""
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def apply_rotary_pos_emb(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1
) -> tuple[Tensor, Tensor]:
    cos = cos.unsqueeze(unsqueeze_dim)
    sin = sin.unsqueeze(unsqueeze_dim)
    q_embed = (q * cos) + (rotate_half(q) * sin)
    k_embed = (k * cos) + (rotate_half(k) * sin)
    return q_embed, k_embed


class RotaryEmbedding(nn.Module):
    def __init__(self, dim: int, base: float = 10000.0) -> None:
        super().__init__()
        inv_freq = 1.0 / (base ** (torch.arange(0, dim, 2, dtype=torch.int64).float() / dim))
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    @torch.no_grad()
    def forward(self, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        inv_freq_expanded = self.inv_freq[None, :, None].float().expand(position_ids.shape[0], -1, 1)
        position_ids_expanded = position_ids[:, None, :].float()
        freqs = (inv_freq_expanded @ position_ids_expanded).transpose(1, 2)
        emb = torch.cat((freqs, freqs), dim=-1)
        return emb.cos().to(dtype=x.dtype), emb.sin().to(dtype=x.dtype)


class HalfRotated(nn.Module):
    """As in transformers' Llama: angles computed from the position ids."""

    def __init__(self, width: int = 12, heads: int = 2) -> None:
        super().__init__()
        self.head_dim = width // heads
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj = nn.Linear(width, width, bias=False)
        self.v_proj = nn.Linear(width, width, bias=False)
        self.rotary_emb = RotaryEmbedding(self.head_dim)

    def forward(self, hidden_states: Tensor, position_ids: Tensor) -> Tensor:
        input_shape = hidden_states.shape[:-1]
        hidden_shape = (*input_shape, -1, self.head_dim)
        query_states = self.q_proj(hidden_states).view(hidden_shape).transpose(1, 2)
        key_states = self.k_proj(hidden_states).view(hidden_shape).transpose(1, 2)
        value_states = self.v_proj(hidden_states).view(hidden_shape).transpose(1, 2)

        cos, sin = self.rotary_emb(value_states, position_ids)
        query_states, key_states = apply_rotary_pos_emb(query_states, key_states, cos, sin)
        attn_output = F.scaled_dot_product_attention(query_states, key_states, value_states, is_causal=True, scale=0.3)
        return attn_output.transpose(1, 2).reshape(*input_shape, -1).contiguous()


class Interleaved(nn.Module):
    """As in GPT-J: neighbours are a pair; tables made once."""

    def __init__(self, width: int = 10, rotary_dim: int = 6, length: int = 16) -> None:
        super().__init__()
        self.rotary_dim = rotary_dim
        theta = 1.0 / (10000 ** (torch.arange(0, rotary_dim, 2) / rotary_dim))
        angles = torch.outer(torch.arange(length).float(), theta)
        self.register_buffer("cos", angles.cos().repeat_interleave(2, dim=-1))
        self.register_buffer("sin", angles.sin().repeat_interleave(2, dim=-1))
        self.mix = nn.Linear(width, width)

    @staticmethod
    def rotate_every_two(x: Tensor) -> Tensor:
        x1, x2 = x[..., ::2], x[..., 1::2]
        return torch.stack((-x2, x1), dim=-1).flatten(-2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.mix(x)
        rot, rest = x[..., : self.rotary_dim], x[..., self.rotary_dim :]
        T = x.size(-2)
        rot = rot * self.cos[:T] + self.rotate_every_two(rot) * self.sin[:T]
        return torch.cat([rot, rest], dim=-1)


def precompute_freqs_cis(dim: int, end: int, theta: float = 10000.0) -> Tensor:
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[: (dim // 2)].float() / dim))
    t = torch.arange(end, dtype=torch.float32)
    return torch.polar(torch.ones(end, dim // 2), torch.outer(t, freqs))  # complex64


def reshape_for_broadcast(freqs_cis: Tensor, x: Tensor) -> Tensor:
    ndim = x.ndim
    assert 0 <= 1 < ndim
    assert freqs_cis.shape == (x.shape[1], x.shape[-1])
    shape = [d if i in (1, ndim - 1) else 1 for i, d in enumerate(x.shape)]
    return freqs_cis.view(*shape)


def apply_rotary_emb(xq: Tensor, xk: Tensor, freqs_cis: Tensor) -> tuple[Tensor, Tensor]:
    xq_ = torch.view_as_complex(xq.float().reshape(*xq.shape[:-1], -1, 2))
    xk_ = torch.view_as_complex(xk.float().reshape(*xk.shape[:-1], -1, 2))
    freqs_cis = reshape_for_broadcast(freqs_cis, xq_)
    xq_out = torch.view_as_real(xq_ * freqs_cis).flatten(3)
    xk_out = torch.view_as_real(xk_ * freqs_cis).flatten(3)
    return xq_out.type_as(xq), xk_out.type_as(xk)


class ComplexRotated(nn.Module):
    """As in Meta's Llama: a rotation is a product of complex numbers."""

    def __init__(self, dim: int = 12, n_heads: int = 3, in_forward: bool = False) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.head_dim = dim // n_heads
        self.wqkv = nn.Linear(dim, 3 * dim, bias=False)
        self.in_forward = in_forward
        if not in_forward:
            self.register_buffer("freqs_cis", precompute_freqs_cis(self.head_dim, 20), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        bsz, seqlen, _ = x.shape
        xq, xk, xv = self.wqkv(x).view(bsz, seqlen, 3 * self.n_heads, self.head_dim).chunk(3, dim=2)
        freqs_cis = precompute_freqs_cis(self.head_dim, seqlen) if self.in_forward else self.freqs_cis[:seqlen]
        xq, xk = apply_rotary_emb(xq, xk, freqs_cis=freqs_cis)
        scores = torch.matmul(xq.transpose(1, 2), xk.permute(0, 2, 3, 1)) / self.head_dim**0.5
        scores = F.softmax(scores.float(), dim=-1).type_as(xq)
        return torch.matmul(scores, xv.transpose(1, 2)).transpose(1, 2).contiguous().view(bsz, seqlen, -1)


def _positions() -> Tensor:
    return torch.arange(5).repeat(3, 1) + torch.tensor([[0], [2], [7]])


EXAMPLES = (
    Example("rotary_halves", HalfRotated, lambda: given(floats(3, 5, 12), position_ids=_positions()), "position ids"),
    Example("rotary_interleaved", Interleaved, lambda: given(floats(2, 7, 10)), "part of the width, strided slices"),
    Example("rotary_complex", ComplexRotated, lambda: given(floats(2, 5, 12)), "a complex buffer, view_as_complex"),
    Example("rotary_polar", lambda: ComplexRotated(8, 2, True), lambda: given(floats(3, 4, 8)), "polar in forward"),
)
