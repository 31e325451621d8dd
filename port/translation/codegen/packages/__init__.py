"""Split a generated source into a package: one file for each file of the original, with imports between them."""

from port.translation.codegen.packages.distributing import WrittenPackage, distributed

__all__ = ["WrittenPackage", "distributed"]
