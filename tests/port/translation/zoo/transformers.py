"""torch's own transformers and attention, with masks, and with the weights of attention used."""

from __future__ import annotations

import math

import torch
import torch.nn as nn
from torch import Tensor

from .example import Example, booleans, floats, given, integers


class PositionalEncoding(nn.Module):
    def __init__(self, d_model: int, dropout: float = 0.1, max_len: int = 20) -> None:
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)

        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, 1, d_model)
        pe[:, 0, 0::2] = torch.sin(position * div_term)
        pe[:, 0, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.pe[: x.size(0)]
        return self.dropout(x)


class LanguageModel(nn.Module):
    """The tutorial's: time first, a mask made in forward."""

    def __init__(self, ntoken: int = 17, d_model: int = 8, nhead: int = 2, d_hid: int = 11, nlayers: int = 2) -> None:
        super().__init__()
        self.pos_encoder = PositionalEncoding(d_model)
        encoder_layers = nn.TransformerEncoderLayer(d_model, nhead, d_hid, dropout=0.2)
        self.transformer_encoder = nn.TransformerEncoder(encoder_layers, nlayers, enable_nested_tensor=False)
        self.embedding = nn.Embedding(ntoken, d_model)
        self.d_model = d_model
        self.linear = nn.Linear(d_model, ntoken)

    def forward(self, src: Tensor, src_mask: Tensor | None = None) -> Tensor:
        src = self.embedding(src) * math.sqrt(self.d_model)
        src = self.pos_encoder(src)
        if src_mask is None:
            src_mask = nn.Transformer.generate_square_subsequent_mask(src.size(0))
        # without being told, torch looks into the mask whether it is causal
        output = self.transformer_encoder(src, src_mask, is_causal=True)
        return self.linear(output)


class PaddedEncoder(nn.Module):
    """Batch first, norm first, a mask of padding, GELU, one norm at the end."""

    def __init__(self, dim: int = 6, classes: int = 3) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            dim, 3, dim_feedforward=10, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(dim), enable_nested_tensor=False)
        self.out = nn.Linear(dim, classes)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        padding = torch.arange(x.size(1))[None, :] >= lengths[:, None]
        h = self.encoder(x, src_key_padding_mask=padding)
        h = h.masked_fill(padding.unsqueeze(-1), 0)
        return self.out(h.sum(1) / lengths.unsqueeze(1))


class Translator(nn.Module):
    """Encoder and decoder: a memory, two masks."""

    def __init__(self, vocab: int = 13, dim: int = 8) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        encoder_layer = nn.TransformerEncoderLayer(dim, 2, 9, 0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(encoder_layer, num_layers=1, enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(dim, 4, 7, 0.1, batch_first=True), num_layers=2)
        self.generator = nn.Linear(dim, vocab)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        tgt_mask = torch.triu(torch.ones(tgt.size(1), tgt.size(1), dtype=torch.bool), diagonal=1)
        memory = self.encoder(self.embed(src))
        out = self.decoder(self.embed(tgt), memory, tgt_mask=tgt_mask, tgt_is_causal=True)
        return self.generator(out)


class CrossAttention(nn.Module):
    """nn.MultiheadAttention with other sizes of keys and values; its weights are a result too."""

    def __init__(self, dim: int = 6, kdim: int = 5, vdim: int = 4) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(dim, 2, dropout=0.1, kdim=kdim, vdim=vdim, batch_first=True)
        self.norm = nn.LayerNorm(dim)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, padding: Tensor) -> tuple[Tensor, Tensor]:
        out, weights = self.attention(query, key, value, key_padding_mask=~padding, average_attn_weights=False)
        return self.norm(query + out), weights.mean(1)


class PooledByAttention(nn.Module):
    """A learned query pools a sequence, time first; a float mask; no weights asked for."""

    def __init__(self, dim: int = 8) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.randn(1, 1, dim))
        self.self_attn = nn.MultiheadAttention(dim, 4, bias=False)
        self.pool = nn.MultiheadAttention(dim, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = x.transpose(0, 1)
        T, N, _ = x.shape
        mask = torch.zeros(T, T).masked_fill(torch.ones(T, T).tril(-2).bool(), float("-inf"))
        x = x + self.self_attn(x, x, x, attn_mask=mask, need_weights=False)[0]
        pooled, _weights = self.pool(self.query.expand(-1, N, -1), x, x)
        return pooled.squeeze(0)


EXAMPLES = (
    Example("language_model", LanguageModel, lambda: given(integers(17, 5, 3)), "TransformerEncoder, time first, mask"),
    Example(
        "padded_encoder", PaddedEncoder, lambda: given(floats(3, 5, 6), torch.tensor([5, 2, 3])), "a mask of padding"
    ),
    Example(
        "translator", Translator, lambda: given(integers(13, 3, 5), integers(13, 3, 4, seed=1)), "TransformerDecoder"
    ),
    Example(
        "cross_attention",
        CrossAttention,
        lambda: given(floats(2, 3, 6), floats(2, 5, 5, seed=1), value=floats(2, 5, 4, seed=2), padding=booleans(2, 5)),
        "MultiheadAttention, kdim and vdim, its weights used",
    ),
    Example("pooled_by_attention", PooledByAttention, lambda: given(floats(3, 5, 8)), "a learned query, a float mask"),
)
