"""CosineSimilarity and PairwiseDistance ⇄ port.nn.functional's."""

from __future__ import annotations

from port.pairs.pair import LayerPair

PAIRS: tuple[LayerPair, ...] = (
    LayerPair(
        torch="torch.nn.CosineSimilarity",
        flax="port.nn.functional.cosine_similarity",
        arguments=lambda module: {"dim": module.dim, "eps": module.eps},
        notes=("G3",),
    ),
    LayerPair(
        torch="torch.nn.PairwiseDistance",
        flax="port.nn.functional.pairwise_distance",
        arguments=lambda module: {"p": module.norm, "eps": module.eps, "keepdim": module.keepdim},
        notes=("G3",),
    ),
)
