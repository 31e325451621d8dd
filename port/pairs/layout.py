"""Line breaking of generated expressions, as by ``ruff format``.

What fits on a line stays on it. Otherwise brackets are split: a call's arguments go on one line of their own, or if
that is too long, on one line each with a trailing comma, as a list's items always do.
"""

from __future__ import annotations

from dataclasses import dataclass

_STEP = 4  # columns


@dataclass(frozen=True)
class Brackets:
    """Comma-separated items in brackets: the only place where a line may break.

    Attributes:
        opening: the opening bracket.
        items: the items.
        closing: the closing bracket; ``",)"`` for a tuple of one item.
        together: whether the items of split brackets may stay on one line: a call's arguments.
    """

    opening: str
    items: tuple[Piece, ...]
    closing: str
    together: bool = False


@dataclass(frozen=True)
class Joined:
    """Concatenated pieces."""

    pieces: tuple[Piece, ...]


Piece = str | Brackets | Joined


def written(piece: Piece, width: int, indent: int = 0) -> str:
    """Return the text of a piece.

    Args:
        piece: the piece to write.
        width: the longest line, in columns; only what cannot be broken exceeds it.
        indent: the column of the first line, and of the last line's closing bracket.
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
    """Return a piece's text, given the first line's column and the number of columns that follow the last line."""
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
    """Return the number of columns after a piece that cannot be broken off: up to the next opening bracket."""
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
