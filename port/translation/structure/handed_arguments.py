"""Which argument of one constructor is an argument of another's: a configuration is handed on from class to class."""

from __future__ import annotations

from port.translation.frontend.construction import Construction
from port.translation.frontend.construction.arguments import is_configuration
from port.translation.ir.origin import ConstructorArgument
from port.translation.ir.origin_numbers import origin_of


class HandedArguments:
    """The arguments of a model's constructors, each followed to the one that it was handed on from.

    Args:
        construction: the original's.
    """

    def __init__(self, construction: Construction) -> None:
        self._known = construction
        self._paths = {number: path for path, number in construction.constructors.items()}

    def as_given(self, path: str, wanted: ConstructorArgument) -> str | None:
        """How the constructor of the module at a path reads what another one reads as its argument.

        None where it is not given that, or not as it is. An argument of its own is nearer than a field of a
        configuration: ``heads``, which is ``config.heads[0]`` of one module and ``config.heads[1]`` of another.
        """
        number = self._known.constructors[path]
        if wanted.constructor == number:
            return wanted.argument
        first = self._first(wanted)
        known: list[tuple[int, str]] = []
        for name in self._known.arguments[path]:
            own = self._first(ConstructorArgument(number, name))
            rest = first.argument.removeprefix(own.argument)
            if own.constructor == first.constructor and _begins(first.argument, own.argument):
                known.append((len(rest), name + rest))
        return min(known, key=lambda each: each[0], default=(0, None))[1]

    def _first(self, argument: ConstructorArgument) -> ConstructorArgument:
        """The argument of the outermost constructor that one was handed on from."""
        path = self._paths.get(argument.constructor)
        for name, value in (self._known.arguments[path] if path is not None else {}).items():
            if _begins(argument.argument, name):
                given = self._known.objects(value) if is_configuration(value) else origin_of(value)
                if isinstance(given, ConstructorArgument) and given.constructor < argument.constructor:
                    rest = argument.argument.removeprefix(name)
                    return self._first(ConstructorArgument(given.constructor, given.argument + rest))
        return argument


def _begins(argument: str, name: str) -> bool:
    """Whether an argument is another one, or something in it."""
    return argument == name or argument.startswith((f"{name}.", f"{name}["))
