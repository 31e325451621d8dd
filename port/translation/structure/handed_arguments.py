"""Trace an argument through nested constructors, such as a configuration passed on from class to class."""

from __future__ import annotations

from port.translation.frontend.construction import Construction
from port.translation.frontend.construction.arguments import is_configuration
from port.translation.ir.origin import ConstructorArgument
from port.translation.ir.origin_numbers import origin_of


class HandedArguments:
    """The constructor arguments of a model, each traced back to the outermost constructor that passed it on.

    Args:
        construction: how the original is constructed.
    """

    def __init__(self, construction: Construction) -> None:
        self._known = construction
        self._paths = {number: path for path, number in construction.constructors.items()}

    def as_given(self, path: str, wanted: ConstructorArgument) -> str | None:
        """Express another constructor's argument in terms of the arguments of the module at a path.

        None where that module does not receive it unchanged. An argument is preferred to a field of a configuration:
        ``heads``, which is ``config.heads[0]`` for one module and ``config.heads[1]`` for another.
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
        """The outermost constructor's argument from which one was passed on."""
        path = self._paths.get(argument.constructor)
        for name, value in (self._known.arguments[path] if path is not None else {}).items():
            if _begins(argument.argument, name):
                passed = self._known.objects(value) if is_configuration(value) else origin_of(value)
                if isinstance(passed, ConstructorArgument) and passed.constructor < argument.constructor:
                    rest = argument.argument.removeprefix(name)
                    return self._first(ConstructorArgument(passed.constructor, passed.argument + rest))
        return argument


def _begins(argument: str, name: str) -> bool:
    """Whether an argument is another one, or an item or attribute of it."""
    return argument == name or argument.startswith((f"{name}.", f"{name}["))
