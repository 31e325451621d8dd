"""Validate the arguments of written constructors: at other settings, the original must lead to the same source."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from port.translation.correlated_arguments import correlated_arguments, is_constant
from port.translation.frontend.construction.moved_settings import (
    moved,
    moved_alone,
    moved_with_another,
    refusal,
    resized_axes,
)
from port.translation.frontend.construction.settings import ConfiguredModel, Setting
from port.translation.frontend.resized_inputs import tensors_of
from port.translation.ir import syntax
from port.translation.ir.expr import worth
from port.translation.other_settings import OtherSettings
from port.translation.program_settings import settings_of
from port.translation.source_difference import difference
from port.translation.structure.own_arguments import OwnArgument, configuration_of
from port.translation.structure.program import Program

Written = Callable[[ConfiguredModel], "Program | None"]
"""Writes the program of a model at other settings; None where there is none."""
Isolate = Callable[[str], "tuple[Program, ConfiguredModel, Written] | None"]
"""Translates the part at a path on its own: its program, its settings, and its `Written`; None where it cannot."""
_REFUSED = "the original accepts none of the other values that were tried, with inputs like these"
_NOWHERE = "it cannot be translated at {value}"
_OTHERWISE = "at {value} the source differs: {line}"
_UNKNOWN = "the original cannot be reconstructed"
_LARGE = "no other value was tried because the model is large; translate a smaller one, and build that at this size"
_UNUSED = "the source does not use it"
_ALONE = "the original passes the same value everywhere"


_VALUES = 2
"""How many values of one setting are tried. At some the source is shorter, e.g. when heads form a single group."""
_MOST = 6000
"""Limit on the steps of all captured runs. A count, not a time, so that every machine writes the same source."""


@dataclass(frozen=True)
class ValidatedArguments:
    """The outcome of trying other settings.

    Attributes:
        fixed: arguments, of any class, that could not be validated and are written as their values.
        settings: the outcome for the root's settings.
        resized: input axes, (tensor, axis), whose length follows a setting → that setting's name.
    """

    fixed: frozenset[OwnArgument] = frozenset()
    settings: OtherSettings = field(default_factory=OtherSettings)
    resized: Mapping[tuple[int, int], str] = field(default_factory=dict)


def validated_arguments(
    program: Program,
    model: ConfiguredModel | None,
    written: Written,
    *,
    isolate: Isolate | None = None,
    steps: int = 0,
    near: ConfiguredModel | None = None,
    requested: Sequence[tuple[ConfiguredModel, Program]] = (),
) -> ValidatedArguments:
    """Try other settings, each moved to a neighbouring value, and compare the sources.

    The source of the original at the other settings must be the same. An argument is valid if it takes several values:
    at other settings, or in several instances of its class.

    Args:
        program: the program with all arguments.
        model: the original at its own settings; None where it cannot be constructed at others.
        written: writes the model at other settings.
        isolate: translates a part of the model on its own.
        steps: the number of steps in a run; a model with many is tried less often, or not at all.
        near: a smaller configuration of the original, if there is one. If its source is the same, settings are moved
            from there.
        requested: other configurations that the user asked for, with their programs; they count as tried.
    """
    values, programs = _values(program), [program]
    trying = _Trying(program, written, max(1, steps))
    if model is not None and any(len(found) == 1 for found in values.values()):
        programs += trying.alike(model, near, requested)
        for other in programs[1:]:
            # An argument that was None may be a class there, or a partial of one.
            for argument, found in _values(other, classes=True).items():
                if argument in values:
                    values[argument] |= found
    fixed = frozenset(argument for argument, found in values.items() if len(found) == 1)
    entangled: dict[str, tuple[str, ...]] = {}
    for path, together in correlated_arguments(programs, fixed).items():
        if refuted := together & _invalid_in_isolation(path, isolate):
            fixed |= refuted
            entangled[next(iter(refuted))[0].__qualname__] = tuple(sorted(name for _, name in refuted))
    by_setting = settings_of(program)
    of_root = [setting for setting, argument in by_setting.items() if argument in fixed]
    if model is None:
        reasons = {_dotted(setting): _UNKNOWN for setting in of_root}
    else:
        reasons = {_dotted(setting): trying.reason(model, setting) for setting in of_root}
        unused = (setting for setting in model.settings() if setting not in by_setting and len(setting) == 1)
        reasons |= {_dotted(setting): _UNUSED for setting in unused}
    own = {} if model is None else {_dotted(setting): value for setting, value in model.settings().items()}
    settings = OtherSettings(tuple(trying.tried), reasons, entangled, values=own)
    return ValidatedArguments(fixed, settings, trying.resized)


def _invalid_in_isolation(path: str, isolate: Isolate | None) -> frozenset[OwnArgument]:
    """Return the arguments of a part's class that fail when moved one by one; empty if that cannot be tried."""
    found = None if isolate is None else isolate(path)
    if found is None:
        return frozenset()
    program, model, written = found
    return validated_arguments(program, model, written).fixed


def with_fixed(validated: ValidatedArguments, program: Program, wrong: Mapping[Setting, str]) -> ValidatedArguments:
    """Return the outcome with further settings fixed.

    Args:
        validated: the outcome of trying other settings.
        program: the program with all arguments.
        wrong: setting → why it failed.
    """
    own = settings_of(program)
    fixed = {**validated.settings.fixed, **{_dotted(setting): why for setting, why in wrong.items()}}
    settings = replace(validated.settings, fixed=fixed)
    return replace(validated, fixed=validated.fixed | {own[setting] for setting in wrong}, settings=settings)


class _Trying:
    """Moves settings, and compares the sources.

    Attributes:
        tried: settings at which the source is the same.
        why: setting → why the source is not the same when it is moved.
        resized: input axes whose length follows a setting → that setting's name.
        left: how many more times the model may be translated at other settings.
    """

    def __init__(self, program: Program, written: Written, steps: int) -> None:
        self.program, self.written, self.left = program, written, _MOST // steps
        self._steps = steps
        self.tried: list[Mapping[str, Any]] = []
        self.why: dict[Setting, str] = {}
        self.resized: dict[tuple[int, int], str] = {}
        self._known: dict[str, Program | None] = {}

    def alike(
        self,
        model: ConfiguredModel,
        near: ConfiguredModel | None = None,
        requested: Sequence[tuple[ConfiguredModel, Program]] = (),
    ) -> list[Program]:
        """Return the programs at other settings with the same source: settings moved in groups, or else one by one.

        Settings that the requested configurations already cover are not tried.

        Two settings that move together may compensate for each other, as in ``dim // heads``. So for any two, there is
        a group with one and without the other.

        Args:
            model: the model whose settings are moved.
            near: the model at a smaller size; settings are moved from there if its source is the same.
            requested: configurations that the user asked for, with their programs.
        """
        made = None if near is None else self._same(near)
        if near is None or made is None:
            self.left = max(0, self.left)
            return self._moved(model, requested)
        # Estimate the steps of a run there as proportional to the number of modules.
        steps = self._steps * _modules(made) // _modules(self.program)
        self.left = _MOST // max(1, steps)
        found = [made, *self._moved(replace(near, moved={}))]
        self.tried = [near.named, *({**near.named, **other} for other in self.tried)]
        return found

    def _moved(
        self, model: ConfiguredModel, requested: Sequence[tuple[ConfiguredModel, Program]] = ()
    ) -> list[Program]:
        values = model.settings()
        shown = [(other, made) for other, made in requested if not difference(self.program, made)]
        # A constructor that is kept from the original reads each number separately, whatever moves together.
        if not self.program.is_kept and not _are_apart([set(other.moved) for other, _ in shown]):
            shown = [each for each in shown if len(each[0].moved) == 1]
        done = {setting for other, _ in shown for setting in other.moved}
        settings = [setting for setting in settings_of(self.program) if setting in values and setting not in done]
        # Bools are moved one by one: they change the source more than numbers do.
        numbers = [setting for setting in settings if not isinstance(values[setting], bool)]
        groups = _groups(numbers)
        found: list[tuple[ConfiguredModel, Program]] = []
        if self.left < len(groups):
            self.left = 0
        for group in groups:
            made = self._alike(model, group)
            if made is None:
                break  # then move each on its own
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

    def _alike(self, model: ConfiguredModel, settings: Sequence[Setting]) -> tuple[ConfiguredModel, Program] | None:
        """Move settings, and return the model and its program if the source is the same; a single one tries values."""
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
        self, model: ConfiguredModel, settings: Sequence[Setting], alone: Collection[Setting]
    ) -> list[tuple[ConfiguredModel, Program]]:
        """Move settings that fail alone together with a valid one, e.g. the number of groups with that of heads."""
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

    def _same(self, other: ConfiguredModel) -> Program | None:
        """Return the program at other settings if its source is the same; each is translated once."""
        self.left -= 1
        key = _key(other)
        if key not in self._known:
            self._known[key] = self._compared(other)
        return self._known[key]

    def _compared(self, other: ConfiguredModel) -> Program | None:
        """Return the program at other settings if its source is the same; otherwise record why not."""
        made = self.written(other)
        line = "" if made is None else difference(self.program, made)
        if made is not None and not line:
            return made
        why = _NOWHERE if made is None else _OTHERWISE
        for setting, value in other.moved.items():
            self.why[setting] = why.format(value=value, line=line)
        return None

    def reason(self, model: ConfiguredModel, setting: Setting) -> str:
        """Return why a setting is fixed; where the original accepts no other value, with its error for one."""
        why = self.why.get(setting, _ALONE)
        message = refusal(model, setting, self.program.tree.root) if why == _REFUSED else ""
        return f"{why}: {message}" if message else why


def _key(model: ConfiguredModel) -> str:
    """Return what distinguishes a model from the others that are moved from the same one."""
    shapes = [[tuple(tensor.shape) for tensor in tensors_of(*call)] for call in model.calls]
    return repr((list(model.moved.items()), shapes))


def _modules(program: Program) -> int:
    return sum(1 for _ in program.tree.root.modules())


def _groups(settings: list[Setting]) -> list[list[Setting]]:
    """Divide settings into few groups, such that for any two settings a group holds one and not the other."""
    bits = range(len(settings).bit_length())
    return [[setting for number, setting in enumerate(settings, 1) if number >> bit & 1] for bit in bits]


def _are_apart(groups: list[set[Setting]]) -> bool:
    """Whether for any two settings a group holds one and not the other."""
    every = set().union(*groups)
    return len({tuple(setting in group for group in groups) for setting in every}) == len(every)


def _dotted(setting: Setting) -> str:
    return ".".join(setting)


def _values(program: Program, *, classes: bool = False) -> dict[OwnArgument, set[str]]:
    """Return constructor argument → the values it takes anywhere, as text, so that True differs from 1.

    Args:
        program: the program with the classes.
        classes: whether to include values that are not constants.
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
