"""Deprecated alias of `port.translation.verify.reverify`, for tests that earlier versions of port have generated."""

import warnings

from port.translation.verify.reverify import prove_files

warnings.warn(
    "port.translation.again is now port.translation.verify.reverify; this alias goes with the next version",
    DeprecationWarning,
    stacklevel=2,
)

__all__ = ["prove_files"]
