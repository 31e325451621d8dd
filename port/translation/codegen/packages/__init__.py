"""Written sources as packages: a file for each of the original's files, with imports between them."""

from port.translation.codegen.packages.distributing import WrittenPackage, distributed

__all__ = ["WrittenPackage", "distributed"]
