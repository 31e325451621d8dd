"""A line that is longer than its column, in several: nothing of it is left out."""

from __future__ import annotations

from rich.cells import get_character_cell_size
from rich.text import Text

HANGING = 4  # further in than the line's own indentation
BREAKS = " ,([{", "./="  # a piece had better end behind one of the first, or else of the second
EMOJI_FOLLOWS = "\ufe0f"  # makes the sign before it two cells wide


def fold(text: Text, width: int) -> list[Text]:
    """The pieces of a line, none wider than ``width`` (2 at least), those that follow indented."""
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
    """How far a piece goes that begins at ``start``; a character at least."""
    for place in range(start, len(plain)):
        wide = plain[place + 1 : place + 2] == EMOJI_FOLLOWS
        width -= 2 if wide else get_character_cell_size(plain[place])
        if width < 0 and place > start:
            return place
    return len(plain)


def _back_to_a_break(plain: str, start: int, stop: int) -> int:
    """Behind a word's end, where that leaves a third of the piece at least."""
    for breaks in BREAKS:
        for place in range(stop, start + (stop - start) // 3, -1):
            if plain[place - 1] in breaks and plain[place] not in breaks:
                return place
    return stop
