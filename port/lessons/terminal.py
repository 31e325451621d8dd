"""Prints two sources side by side in a terminal, or as plain text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from rich.cells import cell_len
from rich.console import Console
from rich.style import Style
from rich.syntax import Syntax
from rich.text import Text

from port.lessons.alignment import AlignedRow, Alignment, Kind
from port.lessons.catalogue import Lesson
from port.lessons.folding import fold
from port.lessons.source import SourceText
from port.lessons.within import words_apart
from port.visible import ESCAPED, visible

# Printed between the columns: the signs of `diff -y`. Colour repeats what they say and never says more.
SIGNS = {Kind.EQUAL: " ", Kind.CHANGED: "|", Kind.ONLY_LEFT: "<", Kind.ONLY_RIGHT: ">"}
STYLES = {Kind.EQUAL: "dim", Kind.CHANGED: "yellow", Kind.ONLY_LEFT: "bold red", Kind.ONLY_RIGHT: "bold cyan"}
WORDS = {
    Kind.EQUAL: "equal",
    Kind.CHANGED: "changed",
    Kind.ONLY_LEFT: "only on the left",
    Kind.ONLY_RIGHT: "only on the right",
}
NARROWEST, WIDEST = 8, 120  # columns; the widest is for output that is not a terminal
ANSI = "ansi_dark"  # the terminal's own colours


def print_lessons(lessons: Sequence[Lesson], console: Console) -> None:
    """Print the lessons in order, one line each."""
    names = max((len(lesson.name) for lesson in lessons), default=0)
    for lesson in lessons:
        line = Text(f"{lesson.name:<{names}}  ", "bold")
        line.append(visible(lesson.about(), console.encoding), "not bold")
        console.print(line, soft_wrap=True)


def print_alignment(alignment: Alignment, console: Console) -> None:
    """Print both files in two columns, as wide as the console. Lines that are equal on both sides are dimmed."""
    gutters = _gutter(alignment.left), _gutter(alignment.right)
    column = max((console.width - sum(gutters) - 5) // 2, NARROWEST)
    for remark in alignment.remarks:
        console.print(Text(f"note  {visible(remark, console.encoding)}", "yellow"), soft_wrap=True)
    names = (visible(source.name, console.encoding) for source in (alignment.left, alignment.right))
    _print_columns(console, gutters, column, ("", ""), tuple(Text(name, "bold") for name in names), (" ", "dim"))
    lines = _lines(alignment.left, console), _lines(alignment.right, console)
    for row in alignment.rows:
        numbers = tuple("" if line is None else str(line.number) for line in row)
        _print_columns(console, gutters, column, numbers, _cells(row, lines), (SIGNS[row.kind], STYLES[row.kind]))
    console.print(_summary(alignment), soft_wrap=True)


def whole_width(alignment: Alignment) -> int:
    """The width of both columns together if no line is wrapped, except for very long ones."""
    sources = alignment.left, alignment.right
    longest = max((cell_len(visible(line)) for source in sources for line in source.lines), default=0)
    names = max(cell_len(visible(source.name)) for source in sources)
    return sum(map(_gutter, sources)) + 5 + 2 * min(max(longest, names), WIDEST)


def _gutter(source: SourceText) -> int:
    return len(str(len(source.lines)))


def _lines(source: SourceText, console: Console) -> list[Text]:
    """Each line of a source as it is printed: highlighted, with control characters written out."""
    shown = [visible(line, console.encoding) for line in source.lines]
    plain = [Text(line) for line in shown]
    if not console.is_terminal or not source.name.endswith((".py", ".pyi")):
        return plain
    coloured = Syntax("", "python", theme=ANSI).highlight("\n".join(shown)).split("\n", allow_blank=True)
    if [line.plain for line in coloured[: len(shown)]] != shown:  # the lexer may not lose a character
        coloured = Text("\n").join(plain).split("\n")
    for line in coloured:
        line.highlight_regex(ESCAPED, Style(reverse=True))
    return list(coloured)


def _cells(row: AlignedRow, lines: tuple[list[Text], list[Text]]) -> tuple[Text, ...]:
    """Both lines: dimmed if they are equal, and with the words underlined that only one of two twins has."""
    left, right = (Text() if line is None else shown[line.number - 1] for line, shown in zip(row, lines, strict=True))
    if row.kind is Kind.EQUAL:
        return Text(left.plain, STYLES[Kind.EQUAL]), Text(right.plain, STYLES[Kind.EQUAL])
    if row.kind is Kind.CHANGED:
        for cell, spans in zip((left, right), words_apart(left.plain, right.plain), strict=True):
            for span in spans:
                cell.stylize("underline", *span)
    return left, right


def _print_columns(
    console: Console,
    gutters: tuple[int, int],
    column: int,
    numbers: tuple[str, ...],
    cells: tuple[Text, ...],
    sign: tuple[str, str],
) -> None:
    """Print one row, in as many lines as its longer side takes."""
    pieces = zip_longest(*(fold(cell, column) for cell in cells), fillvalue=Text())
    for place, (left, right) in enumerate(pieces):
        ours, theirs = numbers if place == 0 else ("", "")
        line = Text()
        line.append(f"{ours:>{gutters[0]}} ", "dim")
        line.append_text(left)
        line.append(" " * (column - cell_len(left.plain)))
        line.append(f" {sign[0]} ", sign[1])
        line.append(f"{theirs:>{gutters[1]}} ", "dim")
        line.append_text(right)
        line.rstrip()
        console.print(line, soft_wrap=True)


def _summary(alignment: Alignment) -> Text:
    counts = {kind: sum(row.kind is kind for row in alignment.rows) for kind in Kind}
    line = Text("lines: ")
    for kind, count in counts.items():
        line.append(f"{SIGNS[kind]} ".lstrip(), STYLES[kind])
        line.append(f"{count} {WORDS[kind]}" + (", " if kind is not Kind.ONLY_RIGHT else ""))
    return line
