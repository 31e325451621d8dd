"""Which arguments of constructors hold: the original at other settings has to be written as the same source."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from port.translation.frontend.construction.moved_settings import (
    moved,
    moved_alone,
    moved_with_another,
    refusal,
    resized_axes,
)
from port.translation.frontend.construction.settings import Setting, Sized
from port.translation.frontend.resized_inputs import tensors_of
from port.translation.ir import syntax
from port.translation.ir.expr import worth
from port.translation.moving_together import is_constant, moving_together
from port.translation.other_settings import OtherSettings
from port.translation.program_settings import settings_of
from port.translation.source_difference import difference
from port.translation.structure.own_arguments import OwnArgument, configuration_of
from port.translation.structure.program import Program

Written = Callable[[Sized], "Program | None"]
"""The program for a model at other settings; None where there is none."""
Alone = Callable[[str], "tuple[Program, Sized, Written] | None"]
"""A part of the model by itself, by its path: its program, its construction, and what it is at other settings."""
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
    alone: Alone | None = None,
    steps: int = 0,
    near: Sized | None = None,
    asked: Sequence[tuple[Sized, Program]] = (),
) -> BorneOut:
    """Try other settings: each is moved to a value beside it.

    What is written for the original there has to be the same source. So an argument holds that has several values:
    there, or in several instances of its class.

    Args:
        program: with all arguments.
        model: the original as it is given; None where it cannot be constructed at other settings.
        written: of the model at other settings.
        alone: a part of the model by itself.
        steps: of a run: a model of many is tried less often, or not at all.
        near: the original at settings at which it is smaller, if there are such. Where it is the same source there,
            its settings are moved from these.
        asked: the original as somebody constructs it otherwise, and what is written for it: as good as what is tried.
    """
    values, programs = _values(program), [program]
    trying = _Trying(program, written, max(1, steps))
    if model is not None and any(len(found) == 1 for found in values.values()):
        programs += trying.alike(model, near, asked)
        for other in programs[1:]:
            # What was None may be a class there, or a partial of one.
            for argument, found in _values(other, classes=True).items():
                if argument in values:
                    values[argument] |= found
    fixed = frozenset(argument for argument, found in values.items() if len(found) == 1)
    entangled: dict[str, tuple[str, ...]] = {}
    for path, together in moving_together(programs, fixed).items():
        if refuted := together & _not_alone(path, alone):
            fixed |= refuted
            entangled[next(iter(refuted))[0].__qualname__] = tuple(sorted(name for _, name in refuted))
    said = settings_of(program)
    of_root = [setting for setting, argument in said.items() if argument in fixed]
    if model is None:
        reasons = {_said(setting): _UNKNOWN for setting in of_root}
    else:
        reasons = {_said(setting): trying.reason(model, setting) for setting in of_root}
        unsaid = (setting for setting in model.settings() if setting not in said and len(setting) == 1)
        reasons |= {_said(setting): _UNSAID for setting in unsaid}
    given = {} if model is None else {_said(setting): value for setting, value in model.settings().items()}
    return BorneOut(fixed, OtherSettings(tuple(trying.tried), reasons, entangled, values=given), trying.resized)


def _not_alone(path: str, alone: Alone | None) -> frozenset[OwnArgument]:
    """The arguments of a part's class that do not hold where each is moved by itself; none if that cannot be tried."""
    found = None if alone is None else alone(path)
    if found is None:
        return frozenset()
    program, model, written = found
    return borne_out(program, model, written).fixed


def with_fixed(borne: BorneOut, program: Program, wrong: Mapping[Setting, str]) -> BorneOut:
    """The same with settings that were seen not to hold.

    Args:
        borne: what came of trying other settings.
        program: with all arguments.
        wrong: settings → why.
    """
    own = settings_of(program)
    fixed = {**borne.settings.fixed, **{_said(setting): why for setting, why in wrong.items()}}
    settings = replace(borne.settings, fixed=fixed)
    return replace(borne, fixed=borne.fixed | {own[setting] for setting in wrong}, settings=settings)


class _Trying:
    """Moves settings, and compares what is written.

    Attributes:
        tried: settings at which the source is the same.
        why: settings → why the source does not hold where they are moved.
        resized: the inputs' axes that are as long as a setting → its name.
        left: how many times the model may still be translated at other settings.
    """

    def __init__(self, program: Program, written: Written, steps: int) -> None:
        self.program, self.written, self.left = program, written, _MOST // steps
        self._steps = steps
        self.tried: list[Mapping[str, Any]] = []
        self.why: dict[Setting, str] = {}
        self.resized: dict[tuple[int, int], str] = {}
        self._known: dict[str, Program | None] = {}

    def alike(
        self, model: Sized, near: Sized | None = None, asked: Sequence[tuple[Sized, Program]] = ()
    ) -> list[Program]:
        """The programs at other settings that are the same source: some moved at once, or else each by itself.

        What those show that somebody asked for is not tried.

        Two settings that move together may make up for each other, as in ``dim // heads``. So of any two, one moves
        without the other.

        Args:
            model: whose settings are moved.
            near: the same at a smaller size, from which they are moved where that is the same source.
            asked: constructions that somebody asked for, and what is written for them.
        """
        made = None if near is None else self._same(near)
        if near is None or made is None:
            self.left = max(0, self.left)
            return self._moved(model, asked)
        # So many steps has a run there, if they are as many as the modules.
        steps = self._steps * _modules(made) // _modules(self.program)
        self.left = _MOST // max(1, steps)
        found = [made, *self._moved(replace(near, moved={}))]
        self.tried = [near.named, *({**near.named, **other} for other in self.tried)]
        return found

    def _moved(self, model: Sized, asked: Sequence[tuple[Sized, Program]] = ()) -> list[Program]:
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
        if not are_apart:
            found += self._with_another(model, settings, {setting for other, _ in found for setting in other.moved})
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
            made = self._same(other)
            if made is not None:
                return other, made
        return None

    def _with_another(
        self, model: Sized, settings: Sequence[Setting], alone: Collection[Setting]
    ) -> list[tuple[Sized, Program]]:
        """What does not move by itself, as where groups of heads come to one, moved along with what does."""
        found = []
        for setting in settings:
            others = () if setting in alone else moved_with_another(model, setting, alone, self.program.tree.root)
            why = self.why.get(setting, "")
            for other in islice(others, min(_VALUES, self.left)):
                made = self._same(other)
                if made is not None:
                    found.append((other, made))
                    break
            self.why |= {setting: why} if why else {}
        return found

    def _same(self, other: Sized) -> Program | None:
        """The program at other settings, where it is the same source; each is translated once."""
        self.left -= 1
        key = _key(other)
        if key not in self._known:
            self._known[key] = self._translated(other)
        return self._known[key]

    def _translated(self, other: Sized) -> Program | None:
        made = self.written(other)
        line = "" if made is None else difference(self.program, made)
        if made is not None and not line:
            return made
        why = _NOWHERE if made is None else _OTHERWISE
        for setting, value in other.moved.items():
            self.why[setting] = why.format(value=value, line=line)
        return None

    def reason(self, model: Sized, setting: Setting) -> str:
        """Why a setting does not hold; where the original takes no other value of it, with what it says of one."""
        why = self.why.get(setting, _ALONE)
        says = refusal(model, setting, self.program.tree.root) if why == _REFUSED else ""
        return f"{why}: {says}" if says else why


def _key(model: Sized) -> str:
    """What tells a model from the others that are moved from the same one."""
    shapes = [[tuple(tensor.shape) for tensor in tensors_of(*call)] for call in model.calls]
    return repr((list(model.moved.items()), shapes))


def _modules(program: Program) -> int:
    return sum(1 for _ in program.tree.root.modules())


def _groups(settings: list[Setting]) -> list[list[Setting]]:
    """Few groups, so that each setting is in one, and of any two settings one is in a group without the other."""
    bits = range(len(settings).bit_length())
    return [[setting for number, setting in enumerate(settings, 1) if number >> bit & 1] for bit in bits]


def _are_apart(groups: list[set[Setting]]) -> bool:
    """Whether of any two settings one is in a group without the other."""
    every = set().union(*groups)
    return len({tuple(setting in group for group in groups) for setting in every}) == len(every)


def _said(setting: Setting) -> str:
    return ".".join(setting)


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
                if configuration_of(value) is None and is_constant(value):
                    found[made.original, argument.name].add(repr(worth(value)))
                elif configuration_of(value) is None and classes:
                    found[made.original, argument.name].add(syntax.source(value))
    for configuration in program.configurations:
        for each in configuration.fields:
            if configuration_of(each.value) is None:
                found[configuration.original, each.name].add(repr(worth(each.value)))
    return found
