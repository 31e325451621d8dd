"""Which words of the original's hold of the written source as well."""

from __future__ import annotations

import re

_LAYOUT = re.compile(
    r"\b[NBbn],\s*[Cc]\b|NCHW|\bBCHW\b|[(\[]\w+(, *[\w*()]+)+[)\]]|type:|noqa|pragma|TODO|FIXME|TorchScript"
)


def is_worth_keeping(line: str) -> bool:
    """Whether a comment, or a docstring, still holds: not one of torch's layout, nor one for a tool."""
    return not _LAYOUT.search(line)
