"""Compare the sources of two programs."""

from __future__ import annotations

import difflib
import re

from port.translation.codegen.emit import render
from port.translation.structure.program import Program
from port.translation.structure.union import united


def difference(program: Program, other: Program) -> str:
    """Return the first line of the other program's source that differs; empty if this program's source covers it."""
    one, theirs = source_of(program), source_of(other)
    if one == theirs or not program.is_kept:
        return first_difference(one, theirs)
    both = _definitions(source_of(united(program, [other])))
    if both != _definitions(one):
        return first_difference("\n".join(_definitions(one)), "\n".join(both))
    # Definitions that only this program has serve other constructions.
    return first_difference("\n".join(_definitions(source_of(united(other, [program])))), "\n".join(both))


def _definitions(source: str) -> list[str]:
    """Return the imports, functions and classes of a source, sorted."""
    return sorted(source.split("\n\n\n"))


def source_of(program: Program) -> str:
    """Return the source of a program's classes, without the code that loads weights."""
    return render(program, title="")


def first_difference(one: str, other: str) -> str:
    """Return the first line in which two sources differ, imports last; empty if they are equal."""
    lines = difflib.unified_diff(one.splitlines(), other.splitlines(), lineterm="", n=0)
    changed = [line[1:].strip() for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    is_import = re.compile(r"(import|from) ").match
    return next(iter(sorted(filter(None, changed), key=lambda line: is_import(line) is not None)), "")
