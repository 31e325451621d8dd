"""Which arguments of constructors hold: the original at other settings has to be written as the same source."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from port.translation.codegen.emit import render
from port.translation.frontend.construction.settings import Setting, Sized, moved
from port.translation.ir import syntax
from port.translation.ir.expr import worth
from port.translation.structure.classes import Program
from port.translation.structure.own_arguments import Configuration, OwnArgument

Values = dict[OwnArgument, set[Any]]


def not_borne_out(
    program: Program, model: Sized | None, written: Callable[[Sized], Program | None]
) -> set[OwnArgument]:
    """The arguments for which it is not seen that the source holds at other values, too.

    Each setting of the model is moved to a value beside it. What is written for the original there has to be the same
    source. So an argument holds that has several values: there, or in several instances of its class.

    Args:
        program: with all arguments.
        model: the original as it is given; None where it cannot be constructed at other settings.
        written: the program for a model at other settings; None where there is none.
    """
    values = _values([program])
    if model is not None and any(len(each) == 1 for each in values.values()):
        settings = [setting for setting in model.settings() if _is_read(program, setting)]
        for other in _written_alike(program, model, settings, written):
            for argument, found in _values([other]).items():
                values[argument] |= found
    return {argument for argument, found in values.items() if len(found) == 1}


def _written_alike(
    program: Program, model: Sized, settings: list[Setting], written: Callable[[Sized], Program | None]
) -> Iterable[Program]:
    """The programs at other settings that are the same source: at all of them moved, or else at each by itself."""
    text = _text(program)
    module = program.tree.root

    def alike(to_move: Iterable[Setting]) -> Program | None:
        other = moved(model, to_move, module)
        made = written(other) if other.moved else None
        return made if made is not None and _text(made) == text else None

    # A switch changes more than numbers do.
    numbers = [setting for setting in settings if not isinstance(model.settings()[setting], bool)]
    together = alike(numbers)
    apart = [setting for setting in settings if setting not in numbers] if together else settings
    alone = (alike([setting]) for setting in apart if [setting] != numbers)
    return [made for made in (together, *alone) if made is not None]


def _text(program: Program) -> str:
    return render(program, title="")


def _is_read(program: Program, setting: Setting) -> bool:
    """Whether the root's constructor takes a setting."""
    taken = {argument.name for argument in program.classes[-1].arguments}
    if len(setting) == 1:
        return setting[0] in taken
    fields = {field.name for made in program.configurations for field in made.fields}
    return setting[0] in taken and setting[1] in fields


def _values(programs: Iterable[Program]) -> Values:
    """Each argument of the constructors' → the values that it is given anywhere."""
    found: Values = defaultdict(set)
    for program in programs:
        for made in program.classes:
            for argument in made.arguments:
                if not argument.is_said:
                    continue
                for value in argument.values.values():
                    if not (isinstance(value, syntax.Const) and isinstance(value.value, Configuration)):
                        found[made.original, argument.name].add(_hashable(worth(value)))
        for configuration in program.configurations:
            for field in configuration.fields:
                if not (isinstance(field.value, syntax.Const) and isinstance(field.value.value, Configuration)):
                    found[configuration.original, field.name].add(_hashable(worth(field.value)))
    return found


def _hashable(value: Any) -> Any:
    return repr(value)  # True is not 1
