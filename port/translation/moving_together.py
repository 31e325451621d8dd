"""Arguments of a class that move together in all of its instances, so that they may make up for each other there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from itertools import combinations

from port.translation.ir import syntax
from port.translation.ir.expr import worth
from port.translation.structure.own_arguments import OwnArgument, configuration_of
from port.translation.structure.program import Program


def moving_together(programs: Sequence[Program], fixed: Collection[OwnArgument]) -> dict[str, frozenset[OwnArgument]]:
    """Arguments of which each has another value wherever the other has one.

    Args:
        programs: the model's, at several settings.
        fixed: arguments that are out of the question.

    Returns:
        the path of an instance → those of its class.
    """
    found: dict[str, frozenset[OwnArgument]] = {}
    for made in programs[0].classes[:-1]:
        instances = [given for program in programs for given in _instances(program, made.original)]
        names = [
            name
            for name in dict.fromkeys(name for given in instances for name in given)
            if (made.original, name) not in fixed
        ]
        for one, other in combinations(names, 2):
            pairs = {(given.get(one), given.get(other)) for given in instances}
            if len(pairs) > 1 and len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs}):
                path = made.members[0]
                found[path] = found.get(path, frozenset()) | {(made.original, one), (made.original, other)}
    return found


def _instances(program: Program, original: type) -> list[dict[str, str]]:
    """What each instance of a class is given: its constants, as text."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for made in program.classes:
        for argument in made.arguments if made.original is original else ():
            for path, value in argument.values.items() if argument.is_said else ():
                if configuration_of(value) is None and is_constant(value):
                    found[path][argument.name] = repr(worth(value))
    return list(found.values())


def is_constant(value: syntax.Expr) -> bool:
    """Whether an expression is made of constants alone."""
    try:
        worth(value)
    except ValueError:
        return False
    return True
