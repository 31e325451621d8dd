"""In which line what two programs write differs."""

from __future__ import annotations

import difflib

from port.translation.codegen.emit import render
from port.translation.structure.program import Program
from port.translation.structure.union import united


def difference(program: Program, other: Program) -> str:
    """The first line in which what another program writes is not in what a program does; empty where all of it is."""
    one, theirs = source_of(program), source_of(other)
    if one == theirs or not program.is_kept:
        return first_difference(one, theirs)
    both = _definitions(source_of(united(program, [other])))
    if both != _definitions(one):
        return first_difference("\n".join(_definitions(one)), "\n".join(both))
    # What only this one has is there for other constructions.
    return first_difference("\n".join(_definitions(source_of(united(other, [program])))), "\n".join(both))


def _definitions(source: str) -> list[str]:
    """The imports, functions and classes of a source, whatever their order."""
    return sorted(source.split("\n\n\n"))


def source_of(program: Program) -> str:
    """The classes of a program, without what loads weights into them."""
    return render(program, title="")


def first_difference(one: str, other: str) -> str:
    """The first line in which a source differs from another."""
    lines = difflib.unified_diff(one.splitlines(), other.splitlines(), lineterm="", n=0)
    changed = [line[1:].strip() for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    return next(filter(None, changed), "")
