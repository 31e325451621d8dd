"""Attention with one projection for queries, keys and values: every way to take it apart, and einsum."""

from __future__ import annotations

import torch
import torch.nn as nn
from torch import Tensor, einsum

from .example import Example, booleans, floats, given


class FusedProjection(nn.Module):
    """timm's attention; how the projection is taken apart is an option here."""

    def __init__(self, dim: int, num_heads: int, how: str, qkv_bias: bool = True) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.how = how
        self.scale = (dim // num_heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)

    def take_apart(self, x: Tensor) -> tuple[Tensor, ...]:
        B, N, C = x.shape
        head_dim = C // self.num_heads
        qkv = self.qkv(x)
        if self.how == "permute":
            qkv = qkv.reshape(B, N, 3, self.num_heads, head_dim).permute(2, 0, 3, 1, 4)
            return qkv[0], qkv[1], qkv[2]
        if self.how == "unbind":
            return qkv.reshape(B, N, 3, self.num_heads, head_dim).permute(2, 0, 3, 1, 4).unbind(0)
        if self.how == "chunk":
            q, k, v = map(lambda t: t.view(B, N, self.num_heads, -1).transpose(1, 2), qkv.chunk(3, dim=-1))  # noqa: C417
            return q, k, v
        if self.how == "split":
            # heads outside, then the three of them, as in GPT-NeoX
            qkv = qkv.view(B, N, self.num_heads, 3 * head_dim)
            return tuple(t.permute(0, 2, 1, 3) for t in qkv.split([head_dim] * 3, dim=-1))
        sliced = [qkv[..., i * C : (i + 1) * C] for i in range(3)]
        return tuple(t.unflatten(-1, (self.num_heads, head_dim)).movedim(2, 1) for t in sliced)

    def forward(self, x: Tensor) -> Tensor:
        B, N, C = x.shape
        q, k, v = self.take_apart(x)
        q = q * self.scale
        attn = q @ k.transpose(-2, -1)
        attn = attn.softmax(dim=-1)
        x = attn @ v
        x = x.transpose(1, 2).reshape(B, N, C)
        return self.proj(x)


class EinsumAttention(nn.Module):
    """Heads are axes of the weights."""

    def __init__(self, d_model: int = 10, heads: int = 3, d_head: int = 4, d_context: int = 7) -> None:
        super().__init__()
        self.w_q = nn.Parameter(torch.empty(heads, d_model, d_head))
        self.w_k = nn.Parameter(torch.empty(heads, d_context, d_head))
        self.w_v = nn.Parameter(torch.empty(heads, d_context, d_head))
        self.w_o = nn.Parameter(torch.empty(heads, d_head, d_model))
        for w in (self.w_q, self.w_k, self.w_v, self.w_o):
            nn.init.xavier_uniform_(w)
        self.scale = d_head**-0.5

    def forward(self, x: Tensor, context: Tensor, mask: Tensor | None = None) -> Tensor:
        q = einsum("bnd,hdk->bhnk", x, self.w_q)
        k = einsum("bmd,hdk->bhmk", context, self.w_k)
        v = einsum("bmd,hdk->bhmk", context, self.w_v)

        sim = einsum("b h i k, b h j k -> b h i j", q, k) * self.scale
        if mask is not None:
            sim = sim.masked_fill(~mask[:, None, None, :], -torch.finfo(sim.dtype).max)
        attn = sim.softmax(dim=-1)

        out = einsum("bhij,bhjk->bhik", attn, v)
        return einsum("bhnk,hkd->bnd", out, self.w_o)


class EinsumForms(nn.Module):
    """What einsum can say: an outer product, a diagonal, a trace, a sum, several factors, an ellipsis."""

    def __init__(self) -> None:
        super().__init__()
        self.core = nn.Parameter(torch.randn(4, 6, 5))
        self.square = nn.Parameter(torch.randn(4, 4))

    def forward(self, a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        outer = torch.einsum("bi,bj->bij", a, b)
        bilinear = torch.einsum("bi,ijk,bj->bk", a, self.core, b)  # three factors
        diagonal = torch.einsum("ii->i", self.square)
        trace = torch.einsum("ii", self.square)
        totals = torch.einsum("bij->j", outer)
        implicit = torch.einsum("ji,...j", self.square, a)  # no arrow: what is left, in the order of the alphabet
        ellipsis = torch.einsum("...i,...i->...", a, a)
        return outer, bilinear, diagonal * trace, totals, implicit, ellipsis


def _case(how: str) -> Example:
    return Example(
        f"projection_{how}",
        lambda: FusedProjection(15, 3, how, qkv_bias=how != "slice"),
        lambda: given(floats(2, 7, 15)),
        f"one projection taken apart by {how}",
    )


EXAMPLES = (
    *map(_case, ("permute", "unbind", "chunk", "split", "slice")),
    Example(
        "einsum_attention",
        EinsumAttention,
        lambda: given(floats(3, 5, 10), floats(3, 6, 7, seed=1), mask=booleans(3, 6)),
        "cross attention by einsum, a padding mask, finfo",
    ),
    Example("einsum_forms", EinsumForms, lambda: given(floats(3, 4), floats(3, 6, seed=1)), "einsum in many forms"),
)
