"""Constructors translated from the original's source, with the twins of its layers in place of the layers."""

from port.translation.structure.kept_constructors.cannot_keep import CannotKeep
from port.translation.structure.kept_constructors.kept_building import KeptBuilding

__all__ = ["CannotKeep", "KeptBuilding"]
