"""Where the lines of a written expression break: as ``ruff format`` breaks them.

What fits on the line stays on it. Where it does not, the brackets open: a call's arguments go on one line of their
own, or, where that is too long as well, on one line each with a comma behind every one, as a list's items always do.
"""

from __future__ import annotations

from dataclasses import dataclass

_STEP = 4  # columns


@dataclass(frozen=True)
class Brackets:
    """Items between brackets, with commas between them: the only place where a line may break.

    Attributes:
        opening: the opening bracket.
        items: what stands in them.
        closing: the closing one; ``",)"`` of a tuple of one item.
        together: whether the items of opened brackets may stay on one line: a call's arguments.
    """

    opening: str
    items: tuple[Piece, ...]
    closing: str
    together: bool = False


@dataclass(frozen=True)
class Joined:
    """Pieces behind one another."""

    pieces: tuple[Piece, ...]


Piece = str | Brackets | Joined


def written(piece: Piece, width: int, indent: int = 0) -> str:
    """The text of a piece.

    Args:
        piece: what is written.
        width: the longest line, in columns; only what cannot be broken goes beyond it.
        indent: the column of the first line, which the last one's closing bracket comes back to.
    """
    return _broken(piece, width, indent, indent, 0)


def _flat(piece: Piece) -> str:
    match piece:
        case Brackets():
            return piece.opening + ", ".join(map(_flat, piece.items)) + piece.closing
        case Joined(pieces):
            return "".join(map(_flat, pieces))
        case _:
            return piece


def _broken(piece: Piece, width: int, indent: int, column: int, after: int) -> str:
    """The text of a piece whose first line begins at a column, with so many columns to come right behind its last."""
    flat = _flat(piece)
    if isinstance(piece, str) or column + len(flat) + after <= width:
        return flat
    if isinstance(piece, Brackets):
        return _opened(piece, width, indent) if piece.items else flat
    text = ""
    for number, part in enumerate(piece.pieces):
        behind = _head_length(piece.pieces[number + 1 :]) or after
        text += _broken(part, width, indent, _column(text, column), behind)
    return text


def _opened(piece: Brackets, width: int, indent: int) -> str:
    inner = indent + _STEP
    margin = " " * inner
    content = ", ".join(map(_flat, piece.items))
    if piece.together and inner + len(content) <= width:
        return f"{piece.opening}\n{margin}{content}\n{' ' * indent}{piece.closing}"
    lines = [f"{margin}{_broken(item, width, inner, inner, 1)},\n" for item in piece.items]
    return f"{piece.opening}\n{''.join(lines)}{' ' * indent}{piece.closing.removeprefix(',')}"


def _head_length(pieces: tuple[Piece, ...]) -> int:
    """How many columns right behind a piece cannot be broken away from it: up to the next opening bracket."""
    length = 0
    for piece in pieces:
        if isinstance(piece, Brackets):
            return length + len(piece.opening)
        if isinstance(piece, Joined):
            return length + _head_length(piece.pieces)
        length += len(piece)
    return length


def _column(text: str, start: int) -> int:
    last = text.rfind("\n")
    return start + len(text) if last < 0 else len(text) - last - 1
