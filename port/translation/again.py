"""Alias of `port.translation.verify.reverify` for the tests of translations that are already written."""

from port.translation.verify.reverify import prove_files

__all__ = ["prove_files"]
