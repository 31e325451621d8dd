"""Deprecated alias of `port.translation.verify.reverify`, for tests that earlier versions of port have generated."""

from __future__ import annotations

import warnings
from typing import Any

from port.translation.verify import reverify
from port.translation.verify.proof import Proof


def prove_files(*arguments: Any, **options: Any) -> Proof:
    """Compare a written module on disk with the original; see `port.translation.verify.reverify.prove_files`."""
    warnings.warn(
        "port.translation.again is now port.translation.verify.reverify; this alias goes with the next version",
        DeprecationWarning,
        stacklevel=2,
    )
    return reverify.prove_files(*arguments, **options)
