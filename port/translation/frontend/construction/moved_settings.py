"""Move a model's settings to neighbouring values that the original accepts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from random import Random
from typing import Any

from port.translation.frontend.construction.accepted_models import accepted, accepted_at, resized_lengths, run_once
from port.translation.frontend.construction.settings import ConfiguredModel, Setting
from port.translation.frontend.example_inputs import first_line
from port.translation.frontend.meta_device import is_on_meta
from port.translation.frontend.resized_inputs import tensors_of

_SMALL, _LARGE = 8, 64
_TOGETHER = 6
"""How many combinations are tried when several settings move at once."""


def moved(model: ConfiguredModel, settings: Iterable[Setting], module: Any) -> ConfiguredModel:
    """Move each of these settings in turn, where the original accepts it.

    Args:
        model: the model at its own settings.
        settings: the settings, in the order in which they are moved.
        module: the original.
    """
    meta = is_on_meta(module)
    now = model
    for setting in settings:
        now = next(filter(None, (accepted(each, meta) for each in _neighbouring_models(now, setting))), now)
    return now


def moved_alone(model: ConfiguredModel, setting: Setting, module: Any) -> Iterator[ConfiguredModel]:
    """Yield the model with one setting at each neighbouring value that the original accepts.

    Args:
        model: the model at its own settings.
        setting: the setting to move.
        module: the original.
    """
    meta = is_on_meta(module)
    seen: set[str] = set()
    for other in _neighbouring_models(model, setting):
        value = repr(other.moved[setting])
        if value not in seen and accepted(other, meta) is not None:
            seen.add(value)
            yield other


def moved_with_another(
    model: ConfiguredModel, setting: Setting, others: Iterable[Setting], module: Any
) -> Iterator[ConfiguredModel]:
    """Yield the model with an integer setting doubled together with a multiple of it, so that their ratio is kept.

    Two groups of four heads become four groups of eight; moved alone, the setting would not divide the other one.

    Args:
        model: the model at its own settings.
        setting: the setting to move.
        others: settings of which one moves along.
        module: the original.
    """
    values, meta = model.settings(), is_on_meta(module)
    value = values[setting]
    larger = sorted((values[each], each) for each in others if type(values[each]) is int and each != setting)
    for number, other in larger if type(value) is int and value > 1 else ():
        if number > value and not number % value:
            found = accepted_at(model, {other: 2 * number, setting: 2 * value}, meta=meta)
            if found is not None:
                yield found


def moved_together(
    model: ConfiguredModel, settings: Sequence[Setting], module: Any, drawn: Random
) -> ConfiguredModel | None:
    """Move several settings at once to neighbouring values; None where the original accepts none of a few combinations.

    Args:
        model: the model at its own settings.
        settings: the settings to move.
        module: the original.
        drawn: the generator that chooses the combinations.
    """
    meta, values = is_on_meta(module), model.settings()
    choices = list(product(*(_neighbours(values[setting]) for setting in settings)))
    drawn.shuffle(choices)
    for chosen in choices[:_TOGETHER]:
        found = accepted_at(model, dict(zip(settings, chosen, strict=True)), meta=meta)
        if found is not None:
            return found
    return None


def refusal(model: ConfiguredModel, setting: Setting, module: Any) -> str:
    """Return the original's error with one setting moved, ``at 8 it raises ValueError: …``; empty if there is none."""
    message, value = "", None
    for other in _neighbouring_models(model, setting):
        if value not in (None, other.moved[setting]):
            break
        value = other.moved[setting]
        try:
            run_once(other, is_on_meta(module))
        except Exception as error:  # the last error is the most telling: with resized inputs
            message = f"at {value} it raises {type(error).__name__}: {first_line(error)}"
    return message


def _neighbouring_models(model: ConfiguredModel, setting: Setting) -> Iterator[ConfiguredModel]:
    value = model.settings()[setting]
    for other in _neighbours(value):
        there = model.at(setting, other)
        yield there
        if type(value) is int and value > 1:
            yield resized_lengths(there, value, other)


def _neighbours(value: Any) -> tuple[Any, ...]:
    if isinstance(value, tuple | list):
        first, *rest = value
        # The first number may be the length of an input; then only the following ones can move.
        following = ((first, *moves) for moves in zip(*map(_neighbours, rest), strict=False))
        return tuple(map(type(value), (*zip(*map(_neighbours, value), strict=False), *following)))
    if isinstance(value, dict):
        numbers = {key: _neighbours(number) for key, number in value.items() if type(number) in (int, float)}
        moves = zip(*numbers.values(), strict=False)
        return tuple({**value, **dict(zip(numbers, move, strict=True))} for move in moves)
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, float):
        # Not 1: a multiplication by 1 is dropped from the source.
        return tuple(other for other in (value / 2, value * 1.5) if other != 1) if value else (0.25,)
    small = (value + 1, 2 * value, value - 1)
    large = (2 * value, value // 2) if value <= _LARGE else (value // 2, 2 * value)
    others = small if value <= _SMALL else (*large, value + 1, value - 1)
    return tuple(dict.fromkeys(other for other in others if other > 0 and other != value))


def resized_axes(model: ConfiguredModel, other: ConfiguredModel) -> dict[tuple[int, int], str]:
    """Return the input axes, (tensor, axis), whose length follows a moved setting → that setting's name.

    Only the first call's inputs are compared; tensors are numbered in order.
    """
    before, found = model.settings(), {}
    arrays = zip(tensors_of(*model.calls[0]), tensors_of(*other.calls[0]), strict=True)
    for number, (one, two) in enumerate(arrays):
        for axis, (old, new) in enumerate(zip(one.shape, two.shape, strict=True)):
            names = [setting[-1] for setting, value in other.moved.items() if (before[setting], value) == (old, new)]
            if old != new and names:
                found[number, axis] = names[0]
    return found
