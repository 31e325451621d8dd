"""The settings of a model, what its constructor is given, moved to values beside them that the original takes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from random import Random
from typing import Any

import torch
from torch.utils import _pytree as pytree

from port.translation.frontend.construction.arguments import is_configuration
from port.translation.frontend.construction.constructed import Construction, constructed, is_alike
from port.translation.frontend.construction.constructed_values import Call, made_anew, with_constructed_values
from port.translation.frontend.example_inputs import Given, first_line, numbers_of
from port.translation.frontend.meta_device import constructed_on_meta, is_on_meta, on_meta_alone
from port.translation.frontend.python_random import again
from port.translation.frontend.resized_inputs import resized, tensors_of
from port.translation.frontend.shape_runs import ShapeRuns

Setting = tuple[str, ...]
"""An argument's name; behind that of a configuration, the field's, and so on within that."""
_SMALL, _LARGE = 8, 64
_TOGETHER = 6
"""Values of several settings at once that are tried."""
_DEEPEST = 3
"""Configurations within configurations that are looked into."""


@dataclass(frozen=True)
class Sized:
    """A model at some settings.

    Attributes:
        cls: its class.
        given: what the constructor is given, by the parameters' names.
        calls: example calls that it takes: of each the positional arguments, and those by name.
        moved: the settings that are another's, and their values.
    """

    cls: type
    given: Mapping[str, Any]
    calls: tuple[Given, ...]
    moved: Mapping[Setting, Any] = field(default_factory=dict)

    @property
    def named(self) -> dict[str, Any]:
        """What is moved, by names: ``heads``, ``config.n_head``."""
        return {".".join(setting): value for setting, value in self.moved.items()}

    def construct(self, call: Call | None = None) -> Any:
        """A model at these settings.

        Args:
            call: calls what makes the modules and the objects that it is given.
        """
        return self.cls(**made_anew(dict(self.given), call))

    def settings(self) -> dict[Setting, Any]:
        """The numbers and switches among what the constructor is given, and in its configurations."""
        return dict(_settings(self.given))

    def at(self, setting: Setting, value: Any) -> Sized:
        """The same with one setting moved."""
        return replace(self, given=_with(self.given, setting, value), moved={**self.moved, setting: value})


def sized(construction: Construction, module: Any, calls: Iterable[Given]) -> Sized | None:
    """A model as it is given; None where its class makes another with the same arguments."""
    if "" not in construction.arguments:
        return None
    found = Sized(type(module), construction.arguments[""], tuple(calls))
    try:
        with again(0):
            made = constructed_on_meta(found.construct)()
    except Exception:  # it reads a file, say
        return None
    return found if is_alike(made, module) else None


def modules_of(model: Sized) -> int:
    """How many modules a model has."""
    with again(0):
        return sum(1 for _ in constructed_on_meta(model.construct)().modules())


def constructed_by(model: Sized, construct: Callable[[], Any]) -> Sized:
    """A model of the same class that another call constructs.

    Args:
        model: as it is given.
        construct: makes the other one.

    Raises:
        ValueError: that is of another class, or another one when it is constructed again.
        Exception: the original's own, also where it does not take the inputs.
    """
    with again(0):
        module = construct()
    if type(module) is not model.cls:
        raise ValueError(f"it gives a {type(module).__qualname__}, and what was written is of {model.cls.__qualname__}")
    construction = constructed(module, construct)
    made = sized(construction, module, model.calls) if construction is not None else None
    if made is None:
        raise ValueError("constructed once more, it is another model")
    given = with_constructed_values(made.given, construct)
    changed = {name: value for name, value in given.items() if repr(value) != repr(model.given.get(name))}
    made = replace(made, given=given, moved={(name,): value for name, value in changed.items()})
    if not (without_numbers := is_on_meta(module)):
        made = replace(made, calls=pytree.tree_map(_with_numbers, made.calls))
    _run(made, without_numbers)
    return made


def fitted(model: Sized, settings: Mapping[Setting, Any]) -> Sized:
    """A model at settings of the user's, its inputs resized where it does not take them as they are.

    Args:
        model: as it is given. Inputs without numbers get some.
        settings: that are moved.

    Raises:
        Exception: the original's own, where it takes neither.
    """
    before = model.settings()
    there = longer = replace(model, calls=pytree.tree_map(_with_numbers, model.calls))
    for setting, value in settings.items():
        there, longer = there.at(setting, value), longer.at(setting, value)
        if type(before[setting]) is int and before[setting] > 1:
            longer = _resized(longer, before[setting], value)
    for each in (there, longer):
        if _tried(each, False) is not None:
            return each
    _run(there, False)
    return there


def _with_numbers(leaf: Any) -> Any:
    """A tensor of the meta device as one that has numbers."""
    if not isinstance(leaf, torch.Tensor) or not leaf.is_meta:
        return leaf
    return numbers_of(tuple(leaf.shape), leaf.dtype, torch.Generator().manual_seed(0))


def moved(model: Sized, settings: Iterable[Setting], module: Any) -> Sized:
    """A model with each of some settings beside where it was, as far as the original takes that.

    Args:
        model: as it is.
        settings: in the order in which they are moved.
        module: the original.
    """
    meta = is_on_meta(module)
    now = model
    for setting in settings:
        now = next(filter(None, (_tried(each, meta) for each in _beside(now, setting))), now)
    return now


def moved_alone(model: Sized, setting: Setting, module: Any) -> Iterator[Sized]:
    """A model with one setting at each value beside where it was that the original takes.

    Args:
        model: as it is.
        setting: that is moved.
        module: the original.
    """
    meta = is_on_meta(module)
    seen: set[str] = set()
    for other in _beside(model, setting):
        value = repr(other.moved[setting])
        if value not in seen and _tried(other, meta) is not None:
            seen.add(value)
            yield other


def moved_together(model: Sized, settings: Sequence[Setting], module: Any, drawn: Random) -> Sized | None:
    """A model with several settings moved at once to values beside them; None where the original takes none of few.

    Args:
        model: as it is.
        settings: that are moved.
        module: the original.
        drawn: says where to.
    """
    meta, values = is_on_meta(module), model.settings()
    choices = list(product(*(_neighbours(values[setting]) for setting in settings)))
    drawn.shuffle(choices)
    for chosen in choices[:_TOGETHER]:
        there = longer = model
        for setting, value in zip(settings, chosen, strict=True):
            there, longer = there.at(setting, value), longer.at(setting, value)
            if type(values[setting]) is int and values[setting] > 1:
                longer = _resized(longer, values[setting], value)
        for each in (there, longer):
            if _tried(each, meta) is not None:
                return each
    return None


def refusal(model: Sized, setting: Setting, module: Any) -> str:
    """What the original says of a setting that is moved by itself, ``of 8 it says ValueError: …``; empty if nothing."""
    says, value = "", None
    for other in _beside(model, setting):
        if value not in (None, other.moved[setting]):
            break
        value = other.moved[setting]
        try:
            _run(other, is_on_meta(module))
        except Exception as error:  # with inputs of another length as well, that says more
            says = f"of {value} it says {type(error).__name__}: {first_line(error)}"
    return says


def _beside(model: Sized, setting: Setting) -> Iterator[Sized]:
    value = model.settings()[setting]
    for other in _neighbours(value):
        there = model.at(setting, other)
        yield there
        if type(value) is int and value > 1:
            yield _resized(there, value, other)


def _neighbours(value: Any) -> tuple[Any, ...]:
    if isinstance(value, tuple | list):
        return tuple(map(type(value), zip(*map(_neighbours, value), strict=False)))
    if isinstance(value, dict):
        numbers = {key: _neighbours(number) for key, number in value.items() if type(number) in (int, float)}
        moves = zip(*numbers.values(), strict=False)
        return tuple({**value, **dict(zip(numbers, move, strict=True))} for move in moves)
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, float):
        # What is multiplied by 1 nobody writes.
        return tuple(other for other in (value / 2, value * 1.5) if other != 1) if value else (0.25,)
    small = (value + 1, 2 * value, value - 1)
    large = (2 * value, value // 2) if value <= _LARGE else (value // 2, 2 * value)
    others = small if value <= _SMALL else (*large, value + 1, value - 1)
    return tuple(dict.fromkeys(other for other in others if other > 0 and other != value))


def _resized(model: Sized, old: int, new: int) -> Sized:
    """The same with inputs that have another length wherever they had the old one."""
    calls = []
    for args, kwargs in model.calls:
        arrays = enumerate(tensors_of(args, kwargs))
        axes = {(k, axis): new for k, array in arrays for axis, length in enumerate(array.shape) if length == old}
        calls.append(resized(args, kwargs, axes))
    return replace(model, calls=tuple(calls))


def _tried(model: Sized, meta: bool) -> Sized | None:
    """A model that the original takes, and runs; None where it does not."""
    try:
        _run(model, meta)
    except Exception:
        return None
    return model


def _run(model: Sized, meta: bool) -> None:
    with again(0), torch.no_grad():
        made = (on_meta_alone(model.construct) if meta else model.construct()).eval()
        for call in model.calls:
            if meta:  # as the capture runs it: what the code asks of masks and indices has an answer
                run = ShapeRuns(made)
                run(*run.given(*call))
            else:
                args, kwargs = copy.deepcopy(call)
                made(*args, **kwargs)


def resized_axes(model: Sized, other: Sized) -> dict[tuple[int, int], str]:
    """The axes of the first call's inputs that are longer or shorter at other settings → a setting that is as long.

    The tensors are numbered as they come in.
    """
    before, found = model.settings(), {}
    arrays = zip(tensors_of(*model.calls[0]), tensors_of(*other.calls[0]), strict=True)
    for number, (one, two) in enumerate(arrays):
        for axis, (old, new) in enumerate(zip(one.shape, two.shape, strict=True)):
            names = [setting[-1] for setting, value in other.moved.items() if (before[setting], value) == (old, new)]
            if old != new and names:
                found[number, axis] = names[0]
    return found


def _settings(held: Mapping[str, Any], before: Setting = ()) -> Iterator[tuple[Setting, Any]]:
    for name, value in held.items():
        if is_configuration(value) and len(before) < _DEEPEST:
            yield from _settings(vars(value), (*before, name))
        elif _is_setting(value):
            yield (*before, name), value


def _with(held: Mapping[str, Any], setting: Setting, value: Any) -> dict[str, Any]:
    """The same with another value; configurations on the way to it are copied."""
    name, *inside = setting
    if inside:
        made = copy.copy(held[name])
        vars(made).update(_with(vars(made), tuple(inside), value))
        value = made
    return {**held, name: value}


def _is_setting(value: Any) -> bool:
    if type(value) in (tuple, list):
        return bool(value) and all(type(item) in (int, float) for item in value)
    if type(value) is dict and all(isinstance(key, str) for key in value):
        return any(type(item) in (int, float) for item in value.values())
    return type(value) in (bool, int, float)
