"""Merge programs of several constructions of a model, with the classes and branches that only some of them use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from port.translation.ir import syntax
from port.translation.structure.class_merge import FoldedClass
from port.translation.structure.kept_constructor import KeptDefinition
from port.translation.structure.kept_constructors.filled_branches import with_branches_of
from port.translation.structure.program import Program


def united(program: Program, others: Sequence[Program]) -> Program:
    """Add to a program what others have; all have constructors translated from source.

    Definitions with the same name count as equal, as they come from the same source.

    Args:
        program: the model's program.
        others: programs of other constructions of the original.
    """
    for other in (part for each in others for part in each.parts):
        known = program.names
        more = replace(
            other,
            classes=tuple(made for made in other.classes if made.name not in known),
            definitions=tuple(made for made in other.definitions if made.name not in known),
            functions=tuple(made for made in other.functions if made.name not in known),
            also=(),
        )
        has_more = more.classes or more.definitions or more.functions
        program = replace(
            program,
            classes=tuple(_filled(made, other) for made in program.classes),
            definitions=tuple(_defined(made, other) for made in program.definitions),
            imports=program.imports | other.imports,
            also=(*program.also, more) if has_more else program.also,
        )
    return program


def _filled(made: FoldedClass, other: Program) -> FoldedClass:
    same = next((each for each in other.classes if each.name == made.name), None)
    if same is None or made.kept is None or same.kept is None:
        return made
    theirs = {function.name: function for function in same.kept.functions}
    functions = [
        with_branches_of(function, theirs[function.name]) if function.name in theirs else function
        for function in made.kept.functions
    ]
    known = {function.name for function in functions}
    # Methods that only the other program's branches call.
    functions += [function for name, function in theirs.items() if name not in known]
    return replace(made, kept=replace(made.kept, functions=tuple(functions)))


def _defined(made: KeptDefinition, other: Program) -> KeptDefinition:
    same = next((each.statement for each in other.definitions if each.name == made.name), None)
    if isinstance(made.statement, syntax.FunctionDef) and isinstance(same, syntax.FunctionDef):
        return replace(made, statement=with_branches_of(made.statement, same))
    return made
