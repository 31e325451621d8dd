"""The name under which the tests that translations are written with find `port.translation.verify.reverify`."""

from port.translation.verify.reverify import prove_files

__all__ = ["prove_files"]
