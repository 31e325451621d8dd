"""The settings of a written program's root constructor: its arguments, and the fields of configurations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from port.translation.frontend.construction.settings import Setting
from port.translation.structure.own_arguments import OwnArgument, configuration_of
from port.translation.structure.program import Program


def settings_of(program: Program) -> dict[Setting, OwnArgument]:
    """Return setting → the argument, or the configuration's field, that it is."""
    root = program.classes[-1]
    fields = {made.original: made.fields for made in program.configurations}

    def within(setting: Setting, value: Any, owner: OwnArgument) -> Iterator[tuple[Setting, OwnArgument]]:
        configuration = configuration_of(value)
        if configuration is None:
            yield setting, owner
            return
        original = configuration.original
        for each in fields.get(original, ()):
            yield from within((*setting, each.name), each.value, (original, each.name))

    found: dict[Setting, OwnArgument] = {}
    for argument in root.arguments:
        if argument.is_said:
            found |= within((argument.name,), argument.values.get(""), (root.original, argument.name))
    return found


def named_settings(program: Program, names: Iterable[str]) -> dict[str, Setting]:
    """Look up settings by the user's names: ``config.n_head``, or ``n_head`` where that is unique.

    Raises:
        KeyError: no setting has such a name, or several have.
    """
    known = list(settings_of(program))
    found = {}
    for name in names:
        fitting = [setting for setting in known if ".".join(setting) == name or setting[-1] == name]
        if len(fitting) != 1:
            raise KeyError(name)
        found[name] = fitting[0]
    return found
