"""Written sources that stand alone: what they take from port is copied into them."""

from port.translation.codegen.vendor.copying import with_own_copies

__all__ = ["with_own_copies"]
