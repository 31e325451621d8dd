"""Text that is safe to print in a terminal: control characters are written out."""

from __future__ import annotations

import re

TAB = 4
# Control characters, and those that change the writing direction or have no width: Python's own rule for what repr
# escapes.
ESCAPED = re.compile(r"\\(x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})")


def visible(text: str, encoding: str = "utf-8") -> str:
    """One line of text, with tabs as spaces, and characters that a terminal obeys or cannot show written as escapes."""
    text = text.expandtabs(TAB)
    if not text.isprintable():
        text = "".join(map(_written, text))
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _written(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
