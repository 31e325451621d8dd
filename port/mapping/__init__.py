"""Maps one model's tensors to the other's: built from modules, names, or a file; on numpy."""

from port.mapping.entry import FROZEN
from port.mapping.file import read_mapping, save_mapping
from port.mapping.guide import Guide, Layer, Leaf, names_only
from port.mapping.mapping import TORCH_ONLY, Entry, Mapping
from port.mapping.models import between, guide_of_flax, guide_of_torch, rules_of
from port.mapping.renaming import Renaming
from port.mapping.rules import Rule, Rules
from port.moves import Fold, Join, Move, Permute, Reshape, Split, Stack

__all__ = [
    "FROZEN",
    "TORCH_ONLY",
    "Entry",
    "Fold",
    "Guide",
    "Join",
    "Layer",
    "Leaf",
    "Mapping",
    "Move",
    "Permute",
    "Renaming",
    "Reshape",
    "Rule",
    "Rules",
    "Split",
    "Stack",
    "between",
    "guide_of_flax",
    "guide_of_torch",
    "names_only",
    "read_mapping",
    "rules_of",
    "save_mapping",
]
