"""Pairs: everything the project knows about PyTorch and JAX, as data."""

from port.pairs.expression import Expression, Function, Reference
from port.pairs.layers import LAYERS
from port.pairs.ops import OperatorPair
from port.pairs.optimizers import OptimizerPair
from port.pairs.pair import LayerPair, ParamPair, name_of, same
from port.pairs.registry import all_pairs, pairs_of_flax, pairs_of_torch, register, resolve
from port.pairs.schedules import SchedulePair
from port.pairs.twin import build_twin, twin_pair

__all__ = [
    "LAYERS",
    "Expression",
    "Function",
    "LayerPair",
    "OperatorPair",
    "OptimizerPair",
    "ParamPair",
    "Reference",
    "SchedulePair",
    "all_pairs",
    "build_twin",
    "name_of",
    "pairs_of_flax",
    "pairs_of_torch",
    "register",
    "resolve",
    "same",
    "twin_pair",
]
