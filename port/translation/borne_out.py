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
    """The programs at other settings that are the same source: at some of them moved, or else at each by itself.

    Two settings that move together may make up for each other, as in ``dim // heads``. So of any two, one moves without
    the other.
    """
    text = _text(program)
    module = program.tree.root

    def alike(to_move: Iterable[Setting]) -> tuple[Sized, Program] | None:
        other = moved(model, to_move, module)
        made = written(other) if other.moved else None
        return (other, made) if made is not None and _text(made) == text else None

    # A switch changes more than numbers do.
    numbers = [setting for setting in settings if not isinstance(model.settings()[setting], bool)]
    groups = _groups(numbers)
    several = list(map(alike, groups))
    found = [each for each in several if each is not None]
    are_apart = len(found) == len(groups) and _are_apart([set(other.moved) for other, _ in found])
    remaining = [setting for setting in settings if setting not in numbers] if are_apart else settings
    alone = [alike([setting]) for setting in remaining if [setting] not in groups]
    found = found if are_apart else [each for each in found if len(each[0].moved) == 1]
    return [made for _, made in (*found, *filter(None, alone))]


def _groups(settings: list[Setting]) -> list[list[Setting]]:
    """Few groups, so that each setting is in one, and of any two settings one is in a group without the other."""
    bits = range(len(settings).bit_length())
    return [[setting for number, setting in enumerate(settings, 1) if number >> bit & 1] for bit in bits]


def _are_apart(groups: list[set[Setting]]) -> bool:
    """Whether of any two settings one is in a group without the other."""
    every = set().union(*groups)
    return len({tuple(setting in group for group in groups) for setting in every}) == len(every)


def _text(program: Program) -> str:
    return render(program, title="")


def _is_read(program: Program, setting: Setting) -> bool:
    """Whether the root's constructor takes a setting."""
    taken = {argument.name for argument in program.classes[-1].arguments}
    fields = {field.name for made in program.configurations for field in made.fields}
    return setting[0] in taken and fields.issuperset(setting[1:])


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
