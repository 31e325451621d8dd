"""Constructors that are written as the original's source has them, with its layers' twins in the place of layers."""

from port.translation.structure.kept_constructors.cannot_keep import CannotKeep
from port.translation.structure.kept_constructors.kept_building import KeptBuilding

__all__ = ["CannotKeep", "KeptBuilding"]
