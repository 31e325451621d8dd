"""Find arguments of a class whose values are correlated over all instances, so that one may replace the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from itertools import combinations

from port.translation.ir import syntax
from port.translation.ir.expr import worth
from port.translation.structure.own_arguments import OwnArgument, configuration_of
from port.translation.structure.program import Program


def correlated_arguments(
    programs: Sequence[Program], fixed: Collection[OwnArgument]
) -> dict[str, frozenset[OwnArgument]]:
    """Return pairs of arguments where each changes if and only if the other does.

    Args:
        programs: the model's programs at several settings.
        fixed: arguments to leave out.

    Returns:
        The path of an instance → the correlated arguments of its class.
    """
    found: dict[str, frozenset[OwnArgument]] = {}
    for made in programs[0].classes[:-1]:
        instances = [values for program in programs for values in _instances(program, made.original)]
        names = [
            name
            for name in dict.fromkeys(name for values in instances for name in values)
            if (made.original, name) not in fixed
        ]
        for one, other in combinations(names, 2):
            pairs = {(values.get(one), values.get(other)) for values in instances}
            if len(pairs) > 1 and len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs}):
                path = made.members[0]
                found[path] = found.get(path, frozenset()) | {(made.original, one), (made.original, other)}
    return found


def _instances(program: Program, original: type) -> list[dict[str, str]]:
    """Return the constant arguments of each instance of a class, as text."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for made in program.classes:
        for argument in made.arguments if made.original is original else ():
            for path, value in argument.values.items() if argument.is_said else ():
                if configuration_of(value) is None and is_constant(value):
                    found[path][argument.name] = repr(worth(value))
    return list(found.values())


def is_constant(value: syntax.Expr) -> bool:
    """Whether an expression consists of constants only."""
    try:
        worth(value)
    except ValueError:
        return False
    return True
