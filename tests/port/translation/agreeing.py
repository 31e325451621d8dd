"""Translations whose proof agrees."""

from __future__ import annotations

from typing import Any

from torch import nn

import port
from port.translation import Translation


def translated(module: nn.Module, *given: Any, **options: Any) -> Translation:
    """A module's translation, which agrees with it.

    Args:
        module: the original.
        given: to its call.
        options: of `port.translate`.
    """
    made = port.translate(module, given, **options)
    assert made.proof is not None and made.proof.agrees, str(made.proof)
    return made
