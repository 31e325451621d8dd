"""Models in the styles that people write keep their constructors, their tables and their loops, and every size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import port

from .idiom_nets import PatchTransformer, Seq2Seq, TokenClassifier

SAID: list[tuple[Callable[[], nn.Module], tuple[torch.Tensor, ...], dict[str, Any], list[str]]] = [
    (
        TokenClassifier,
        (torch.randint(1, 30, (2, 7)),),
        {"d_model": 24, "nhead": 2, "nlayers": 3},
        [
            "layer = TransformerEncoderLayer(",
            "self.encoder = TransformerEncoder(layer, nlayers)",
            "pe = pe.at[:, 0::2].set(jnp.sin(position * div_term))",
            "x = self.embedding(src) * math.sqrt(self.d_model)",
        ],
    ),
    (
        Seq2Seq,
        (torch.randint(0, 12, (2, 5)), torch.randint(0, 12, (2, 4))),
        {"emb": 6, "hidden": 7},
        [
            "self.cell = GRUCell(emb + hidden, hidden, **options)",
            "a = jnp.expand_dims(self.attention(hidden, outputs), 1)",
            "predictions = predictions.at[:, t].set(",
            "lax.scan(step, (hidden, predictions), ",
        ],
    ),
    (
        PatchTransformer,
        (torch.randn(2, 3, 16, 16),),
        {"embed_dim": 32, "depth": 4, "num_heads": 2},
        [
            "dpr = [x.item() for x in torch_linspace(0, drop_path_rate, depth)]",
            "[Block(embed_dim, num_heads, drop_path=dpr[i], **options) for i in range(depth)]",
            "if drop_path > 0.0",
            "x = x + self.drop_path(self.attn(self.norm1(x)))",
            "(1, self.patch_embed.num_patches + 1, embed_dim)",
            "return self.head(self.forward_features(x))",
        ],
    ),
]


@pytest.mark.sweep
@pytest.mark.parametrize(("construct", "args", "elsewhere", "said"), SAID, ids=[each[0].__name__ for each in SAID])
def test_it_is_the_model_at_every_size(
    construct: Callable[[], nn.Module], args: tuple[torch.Tensor, ...], elsewhere: dict[str, Any], said: list[str]
) -> None:
    torch.manual_seed(0)
    made = port.translate(construct(), args, construct=construct, sizes_limit=0.0)
    assert made.proof is not None and made.proof.agrees, str(made.proof)
    for text in said:
        assert text in made.source, made.source
    assert "is written for" not in made.source and "TABLES" not in made.source, made.source
    assert made.proof_at(elsewhere).agrees
