"""Layers: torch.nn class ⇄ flax.nnx or port.nn class. One file a family."""

from port.pairs.layers import conv, linear, norm
from port.pairs.pair import LayerPair

LAYERS: tuple[LayerPair, ...] = (*linear.PAIRS, *conv.PAIRS, *norm.PAIRS)

__all__ = ["LAYERS"]
