"""Which arguments of constructors hold: the original at other settings has to be written as the same source."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from port.translation.codegen.emit import render
from port.translation.frontend.construction.settings import (
    Setting,
    Sized,
    moved,
    moved_alone,
    resized_axes,
)
from port.translation.ir import syntax
from port.translation.ir.expr import worth
from port.translation.other_settings import OtherSettings
from port.translation.structure.own_arguments import OwnArgument, configuration_of
from port.translation.structure.program import Program
from port.translation.structure.union import united

Written = Callable[[Sized], "Program | None"]
"""The program for a model at other settings; None where there is none."""
_REFUSED = "no other value was found that the original takes, with inputs like these"
_NOWHERE = "it cannot be translated at {value}"
_OTHERWISE = "at {value} the source is another: {line}"
_UNKNOWN = "the original cannot be constructed anew"
_LARGE = "no other value was tried, for the model is large; translate it at a smaller size, and build that at this one"
_UNSAID = "nothing in the source is said with it"
_ALONE = "it is the same wherever the original gives it"


_VALUES = 2
"""Of one setting that are tried: at some, what is written has a shorter form, as where heads come to one group."""
_MOST = 6000
"""Steps of all the runs that are captured for it: a count, so that the same source is written on every machine."""


@dataclass(frozen=True)
class BorneOut:
    """What came of trying other settings.

    Attributes:
        fixed: arguments, of any class, of which it was not seen that they hold.
        settings: of the root.
        resized: the axes of inputs, numbered as they come in, that are as long as a setting → its name.
    """

    fixed: frozenset[OwnArgument] = frozenset()
    settings: OtherSettings = field(default_factory=OtherSettings)
    resized: Mapping[tuple[int, int], str] = field(default_factory=dict)


def borne_out(
    program: Program,
    model: Sized | None,
    written: Written,
    *,
    steps: int = 0,
    asked: Sequence[tuple[Sized, Program]] = (),
) -> BorneOut:
    """Try other settings: each is moved to a value beside it.

    What is written for the original there has to be the same source. So an argument holds that has several values:
    there, or in several instances of its class.

    Args:
        program: with all arguments.
        model: the original as it is given; None where it cannot be constructed at other settings.
        written: of the model at other settings.
        steps: of a run: a model of many is tried less often, or not at all.
        asked: the original as somebody constructs it otherwise, and what is written for it: as good as what is tried.
    """
    values = _values(program)
    trying = _Trying(program, written, _MOST // max(1, steps))
    if model is not None and any(len(found) == 1 for found in values.values()):
        for other in trying.alike(model, asked):
            # What was None may be a class there, or a partial of one.
            for argument, found in _values(other, classes=True).items():
                if argument in values:
                    values[argument] |= found
    fixed = frozenset(argument for argument, found in values.items() if len(found) == 1)
    said = settings_of(program)
    of_root = [setting for setting, argument in said.items() if argument in fixed]
    if model is None:
        reasons = {_said(setting): _UNKNOWN for setting in of_root}
    else:
        reasons = {_said(setting): trying.why.get(setting, _ALONE) for setting in of_root}
        unsaid = (setting for setting in model.settings() if setting not in said and len(setting) == 1)
        reasons |= {_said(setting): _UNSAID for setting in unsaid}
    return BorneOut(fixed, OtherSettings(tuple(trying.tried), reasons), trying.resized)


class _Trying:
    """Moves settings, and compares what is written.

    Attributes:
        tried: settings at which the source is the same.
        why: settings → why the source does not hold where they are moved.
        resized: the inputs' axes that are as long as a setting → its name.
        left: how many times the model may still be translated at other settings.
    """

    def __init__(self, program: Program, written: Written, left: int) -> None:
        self.program, self.written, self.left = program, written, left
        self.tried: list[Mapping[str, Any]] = []
        self.why: dict[Setting, str] = {}
        self.resized: dict[tuple[int, int], str] = {}

    def alike(self, model: Sized, asked: Sequence[tuple[Sized, Program]] = ()) -> list[Program]:
        """The programs at other settings that are the same source: some moved at once, or else each by itself.

        What those show that somebody asked for is not tried.

        Two settings that move together may make up for each other, as in ``dim // heads``. So of any two, one moves
        without the other.
        """
        values = model.settings()
        shown = [(other, made) for other, made in asked if not difference(self.program, made)]
        # A constructor that is the original's own says each number as the original does, whatever moves together.
        if not self.program.is_kept and not _are_apart([set(other.moved) for other, _ in shown]):
            shown = [each for each in shown if len(each[0].moved) == 1]
        done = {setting for other, _ in shown for setting in other.moved}
        settings = [setting for setting in settings_of(self.program) if setting in values and setting not in done]
        # A switch changes more than numbers do.
        numbers = [setting for setting in settings if not isinstance(values[setting], bool)]
        groups = _groups(numbers)
        found: list[tuple[Sized, Program]] = []
        if self.left < len(groups):
            self.left = 0
        for group in groups:
            made = self._alike(model, group)
            if made is None:
                break  # then each moves by itself
            found.append(made)
        are_apart = len(found) == len(groups) and _are_apart([set(other.moved) for other, _ in found])
        remaining = [setting for setting in settings if setting not in numbers] if are_apart else settings
        found = [each for each in found if are_apart or len(each[0].moved) == 1]
        known = [list(other.moved) for other, _ in found]
        found += filter(None, [self._alike(model, [setting]) for setting in remaining if [setting] not in known])
        self.tried = [other.named for other, _ in found]
        self.resized = {axis: name for other, _ in found for axis, name in resized_axes(model, other).items()}
        return [made for _, made in (*shown, *found)]

    def _alike(self, model: Sized, settings: Sequence[Setting]) -> tuple[Sized, Program] | None:
        """A model with settings moved that is the same source; of one setting, several values are tried."""
        module = self.program.tree.root
        others = moved_alone(model, settings[0], module) if len(settings) == 1 else [moved(model, settings, module)]
        for setting in settings:
            self.why.setdefault(setting, _REFUSED if self.left else _LARGE)
        for other in islice(others if self.left else (), _VALUES):
            if not other.moved or not self.left:
                break
            self.left -= 1
            made = self.written(other)
            line = "" if made is None else difference(self.program, made)
            if made is not None and not line:
                return other, made
            why = _NOWHERE if made is None else _OTHERWISE
            for setting, value in other.moved.items():
                self.why[setting] = why.format(value=value, line=line)
        return None


def _groups(settings: list[Setting]) -> list[list[Setting]]:
    """Few groups, so that each setting is in one, and of any two settings one is in a group without the other."""
    bits = range(len(settings).bit_length())
    return [[setting for number, setting in enumerate(settings, 1) if number >> bit & 1] for bit in bits]


def _are_apart(groups: list[set[Setting]]) -> bool:
    """Whether of any two settings one is in a group without the other."""
    every = set().union(*groups)
    return len({tuple(setting in group for group in groups) for setting in every}) == len(every)


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


def _said(setting: Setting) -> str:
    return ".".join(setting)


def settings_of(program: Program) -> dict[Setting, OwnArgument]:
    """The settings that the root's constructor takes, each as an argument or a configuration's field."""
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


def _is_constant(value: syntax.Expr) -> bool:
    """Whether an expression is made of constants alone."""
    try:
        worth(value)
    except ValueError:
        return False
    return True


def _values(program: Program, *, classes: bool = False) -> dict[OwnArgument, set[str]]:
    """Each argument of the constructors' → the values that it is given anywhere, as text: True is not 1.

    Args:
        program: its classes.
        classes: whether what is no constant is a value, too.
    """
    found: dict[OwnArgument, set[str]] = defaultdict(set)
    for made in program.classes:
        for argument in made.arguments:
            for value in argument.values.values() if argument.is_said else ():
                if configuration_of(value) is None and _is_constant(value):
                    found[made.original, argument.name].add(repr(worth(value)))
                elif configuration_of(value) is None and classes:
                    found[made.original, argument.name].add(syntax.source(value))
    for configuration in program.configurations:
        for each in configuration.fields:
            if configuration_of(each.value) is None:
                found[configuration.original, each.name].add(repr(worth(each.value)))
    return found


def named_settings(program: Program, names: Iterable[str]) -> dict[str, Setting]:
    """Settings of the root by the names that a user gives them: ``config.n_head``, or ``n_head`` where that is one.

    Raises:
        KeyError: there is none with such a name, or there are several.
    """
    known = list(settings_of(program))
    found = {}
    for name in names:
        fitting = [setting for setting in known if _said(setting) == name or setting[-1] == name]
        if len(fitting) != 1:
            raise KeyError(name)
        found[name] = fitting[0]
    return found
