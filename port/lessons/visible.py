"""Text as a terminal may be sent it: what would steer the terminal is written out instead."""

from __future__ import annotations

import re

TAB = 4
# Control characters, but also those that turn the direction of writing round or take no place: Python's own rule, for
# what repr writes as it is.
ESCAPED = re.compile(r"\\(x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})")


def visible(text: str, encoding: str = "utf-8") -> str:
    """One line of text, tabs as spaces, and all that a terminal might obey, or cannot show, as Python writes it."""
    text = text.expandtabs(TAB)
    if not text.isprintable():
        text = "".join(map(_written, text))
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _written(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
