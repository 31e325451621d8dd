"""Reconstruct the original with numbers that remember which constructor argument they come from."""

from port.translation.frontend.construction.constructed import Construction, constructed
from port.translation.frontend.construction.reconstruction import constructor_arguments

__all__ = ["Construction", "constructed", "constructor_arguments"]
