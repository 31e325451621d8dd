"""Models at other settings that the original accepts: constructed there, and run once."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from port.translation.frontend.construction.constructed import constructed
from port.translation.frontend.construction.constructed_values import with_constructed_values
from port.translation.frontend.construction.settings import ConfiguredModel, Setting, configured_model
from port.translation.frontend.example_inputs import numbers_of
from port.translation.frontend.meta_device import built_on_meta, constructed_on_meta, is_on_meta
from port.translation.frontend.python_random import reseeded
from port.translation.frontend.quiet import quiet
from port.translation.frontend.resized_inputs import resized, tensors_of
from port.translation.frontend.shape_runs import ShapeRuns


def modules_of(model: ConfiguredModel) -> int:
    """Count a model's modules."""
    with reseeded(0):
        return sum(1 for _ in constructed_on_meta(model.construct)().modules())


def constructed_by(model: ConfiguredModel, construct: Callable[[], Any]) -> ConfiguredModel:
    """Return the settings of a model of the same class that another call constructs.

    Args:
        model: the model at its own settings.
        construct: constructs the other model.

    Raises:
        ValueError: the other model is of another class, or differs when it is constructed again.
        Exception: the original's own errors, also where it does not accept the inputs.
    """
    with reseeded(0):
        module = construct()
    if type(module) is not model.cls:
        raise ValueError(
            f"it returns a {type(module).__qualname__}, but the translation is of {model.cls.__qualname__}"
        )
    construction = constructed(module, construct)
    made = configured_model(construction, module, model.calls) if construction is not None else None
    if made is None:
        raise ValueError("a second call constructs a different model")
    arguments = with_constructed_values(made.arguments, construct)
    changed = {name: value for name, value in arguments.items() if repr(value) != repr(model.arguments.get(name))}
    made = replace(made, arguments=arguments, moved={(name,): value for name, value in changed.items()})
    if not (without_numbers := is_on_meta(module)):
        made = replace(made, calls=pytree.tree_map(_with_numbers, made.calls))
    run_once(made, without_numbers)
    return made


def with_user_settings(model: ConfiguredModel, settings: Mapping[Setting, Any]) -> ConfiguredModel:
    """Move a model to the user's settings, with resized inputs where it does not accept them as they are.

    Args:
        model: the model at its own settings. Inputs on the meta device are replaced by random ones.
        settings: the settings to move, with their values.

    Raises:
        Exception: the original's own error, where it accepts neither.
    """
    moved = replace(model, calls=pytree.tree_map(_with_numbers, model.calls))
    found = accepted_at(moved, settings, meta=False)
    if found is None:
        found = _both(moved, settings)[0]
        run_once(found, False)
    return found


def accepted_at(model: ConfiguredModel, settings: Mapping[Setting, Any], *, meta: bool) -> ConfiguredModel | None:
    """Move a model to other settings, with unchanged or resized inputs; None where the original accepts neither.

    Args:
        model: the model at its own settings.
        settings: the settings to move, with their values.
        meta: whether the original is on the meta device.
    """
    return next(filter(None, (accepted(each, meta) for each in _both(model, settings))), None)


def _both(model: ConfiguredModel, settings: Mapping[Setting, Any]) -> tuple[ConfiguredModel, ConfiguredModel]:
    """Return the model at other settings twice: with unchanged inputs, and with inputs resized along with them."""
    before, there, longer = model.settings(), model, model
    for setting, value in settings.items():
        there, longer = there.at(setting, value), longer.at(setting, value)
        own = before.get(setting)  # None for a setting that is not a number or a switch
        if type(own) is int and own > 1:
            longer = resized_lengths(longer, own, value)
    return there, longer


def _with_numbers(leaf: Any) -> Any:
    """Replace a tensor on the meta device by a random one."""
    if not isinstance(leaf, torch.Tensor) or not leaf.is_meta:
        return leaf
    return numbers_of(tuple(leaf.shape), leaf.dtype, torch.Generator().manual_seed(0))


def resized_lengths(model: ConfiguredModel, old: int, new: int) -> ConfiguredModel:
    """Resize all input axes of length ``old`` to ``new``."""
    calls = []
    for args, kwargs in model.calls:
        arrays = enumerate(tensors_of(args, kwargs))
        axes = {(k, axis): new for k, array in arrays for axis, length in enumerate(array.shape) if length == old}
        calls.append(resized(args, kwargs, axes))
    return replace(model, calls=tuple(calls))


def accepted(model: ConfiguredModel, meta: bool) -> ConfiguredModel | None:
    """Return the model if it can be constructed and run; None otherwise."""
    try:
        run_once(model, meta)
    except Exception:  # the original's code may raise anything
        return None
    return model


def run_once(model: ConfiguredModel, meta: bool) -> None:
    """Construct a model and run its example calls; the original's errors propagate."""
    with reseeded(0), torch.no_grad():
        made = (built_on_meta(model.construct) if meta else model.construct()).eval()
        for call in model.calls:
            if meta:  # as the capture runs it: masks and indices have values
                run = ShapeRuns(made)
                with quiet():  # a size that does not fit is rejected: torch need not log it
                    run(*run.inputs(*call))
            else:
                args, kwargs = copy.deepcopy(call)
                made(*args, **kwargs)
