"""The dictionary: all that the project knows of the two frameworks, as pairs."""

from port.pairs.layers import LAYERS
from port.pairs.modules import dotted, mapping_from_flax
from port.pairs.pair import LayerPair, ParamPair

__all__ = ["LAYERS", "LayerPair", "ParamPair", "dotted", "mapping_from_flax"]
