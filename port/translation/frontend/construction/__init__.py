"""The original constructed anew with numbers that remember which constructor's argument they are."""

from port.translation.frontend.construction.constructed import Construction, constructed

__all__ = ["Construction", "constructed"]
