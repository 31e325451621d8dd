"""Layers: torch.nn class ⇄ flax.nnx, flax.linen or port.nn class. One file a family.

If several pairs match a torch class, the first that fits is its twin.
"""

from port.pairs.layers import (
    activation,
    attention,
    batch_norm,
    conv,
    conv_transpose,
    distance,
    dropout,
    embedding,
    lazy,
    linear,
    norm,
    padding,
    parametrized,
    pooling,
    prelu,
    recurrent,
    resize,
    response_norm,
    shape,
    token_cache,
    torchvision,
    transformer,
)
from port.pairs.layers.derived import Derive
from port.pairs.losses import PAIRS as LOSSES
from port.pairs.pair import LayerPair

LAYERS: tuple[LayerPair, ...] = (
    *linear.PAIRS,
    *conv.PAIRS,
    *conv_transpose.PAIRS,
    *batch_norm.PAIRS,
    *norm.PAIRS,
    *embedding.PAIRS,
    *prelu.PAIRS,
    *lazy.PAIRS,
    *activation.PAIRS,
    *pooling.PAIRS,
    *padding.PAIRS,
    *resize.PAIRS,
    *shape.PAIRS,
    *dropout.PAIRS,
    *distance.PAIRS,
    *response_norm.PAIRS,
    *recurrent.PAIRS,
    *attention.PAIRS,
    *token_cache.PAIRS,
    *transformer.PAIRS,
    *torchvision.PAIRS,
    *LOSSES,
)

DERIVED: tuple[Derive, ...] = parametrized.DERIVED
"""Wrappers around a layer: their pairs are derived from the pair of the wrapped layer."""

__all__ = ["DERIVED", "LAYERS"]
