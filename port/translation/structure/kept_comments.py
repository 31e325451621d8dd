"""Decide which comments of the original also hold for the written source."""

from __future__ import annotations

import re

_LAYOUT = re.compile(
    r"\b[NBbn],\s*[Cc]\b|NCHW|\bBCHW\b|[(\[]\w+(, *[\w*()]+)+[)\]]|type:|noqa|pragma|TODO|FIXME|TorchScript"
)


def is_worth_keeping(line: str) -> bool:
    """Whether a comment or docstring still holds: not if it describes torch's layout or addresses a tool."""
    return not _LAYOUT.search(line)
