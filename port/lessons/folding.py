"""Wraps a line that is wider than its column: nothing of it is left out."""

from __future__ import annotations

from rich.cells import get_character_cell_size
from rich.text import Text

HANGING = 4  # indentation beyond the line's own
BREAKS = " ,([{", "./="  # a piece preferably ends after one of the first, or else of the second
EMOJI_FOLLOWS = "\ufe0f"  # makes the character before it two cells wide


def fold(text: Text, width: int) -> list[Text]:
    """Split a line into pieces, none wider than ``width`` (2 at least), continuation pieces indented."""
    plain = text.plain
    first = _reach(plain, 0, width)
    if first == len(plain):
        return [text]
    hanging = min(len(plain) - len(plain.lstrip(" ")) + HANGING, (width - 1) // 2)
    cuts = [_back_to_a_break(plain, 0, first)]
    while (stop := _reach(plain, cuts[-1], width - hanging)) < len(plain):
        cuts.append(_back_to_a_break(plain, cuts[-1], stop))
    pieces = text.divide(cuts)
    return [pieces[0], *(Text(" " * hanging).append_text(piece) for piece in pieces[1:])]


def _reach(plain: str, start: int, width: int) -> int:
    """The end of a piece that begins at ``start``; at least one character further."""
    for place in range(start, len(plain)):
        wide = plain[place + 1 : place + 2] == EMOJI_FOLLOWS
        width -= 2 if wide else get_character_cell_size(plain[place])
        if width < 0 and place > start:
            return place
    return len(plain)


def _back_to_a_break(plain: str, start: int, stop: int) -> int:
    """Move the end back to a word's end, if that leaves a third of the piece at least."""
    for breaks in BREAKS:
        for place in range(stop, start + (stop - start) // 3, -1):
            if plain[place - 1] in breaks and plain[place] not in breaks:
                return place
    return stop
