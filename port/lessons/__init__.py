"""The lessons, and alignments of two sources: every line once, definitions opposite their twins.

An `Alignment` is data: rows of a line and its twin. `print_alignment` prints it to a terminal.
"""

from port.lessons.alignment import AlignedRow, Alignment, Kind, NumberedLine, align
from port.lessons.catalogue import READING_ORDER, Lesson, find_lesson, lessons
from port.lessons.source import SourceText, read_source, source_of
from port.lessons.terminal import print_alignment, print_lessons, whole_width
from port.lessons.within import Span, words_apart
from port.lessons.written_folder import account_in, is_written_folder, read_written_folder

__all__ = [
    "READING_ORDER",
    "AlignedRow",
    "Alignment",
    "Kind",
    "Lesson",
    "NumberedLine",
    "SourceText",
    "Span",
    "account_in",
    "align",
    "find_lesson",
    "is_written_folder",
    "lessons",
    "print_alignment",
    "print_lessons",
    "read_source",
    "read_written_folder",
    "source_of",
    "whole_width",
    "words_apart",
]
