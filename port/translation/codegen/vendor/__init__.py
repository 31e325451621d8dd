"""Standalone sources: copy into a generated source what it imports from port."""

from port.translation.codegen.vendor.copying import with_own_copies

__all__ = ["with_own_copies"]
