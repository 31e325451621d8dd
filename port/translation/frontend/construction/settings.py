"""The settings of a model, what its constructor is given, moved to values beside them that the original takes."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch.utils import _pytree as pytree

from port.translation.frontend.construction.arguments import is_configuration
from port.translation.frontend.construction.constructed import Construction
from port.translation.frontend.meta_device import constructed_on_meta, is_on_meta, on_meta
from port.translation.frontend.python_random import again

Setting = tuple[str, ...]
"""An argument's name; behind that of a configuration, the field's, and so on within that."""
_SMALL, _LARGE = 8, 64
_DEEPEST = 3
"""Configurations within configurations that are looked into."""


@dataclass(frozen=True)
class Sized:
    """A model at some settings.

    Attributes:
        cls: its class.
        given: what the constructor is given, by the parameters' names.
        args: inputs that it takes.
        kwargs: those by name.
        moved: the settings that are another's, and their values.
    """

    cls: type
    given: Mapping[str, Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    moved: Mapping[Setting, Any] = field(default_factory=dict)

    @property
    def named(self) -> dict[str, Any]:
        """What is moved, by names: ``heads``, ``config.n_head``."""
        return {".".join(setting): value for setting, value in self.moved.items()}

    def construct(self) -> Any:
        """A model at these settings."""
        return self.cls(**copy.deepcopy(dict(self.given)))

    def settings(self) -> dict[Setting, Any]:
        """The numbers and switches among what the constructor is given, and in its configurations."""
        return dict(_settings(self.given))

    def at(self, setting: Setting, value: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sized:
        """The same with one setting moved."""
        return Sized(self.cls, _with(self.given, setting, value), args, kwargs, {**self.moved, setting: value})


def sized(construction: Construction, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sized | None:
    """A model as it is given; None where its class makes another with the same arguments."""
    if "" not in construction.arguments:
        return None
    found = Sized(type(module), construction.arguments[""], args, kwargs)
    try:
        with again(0):
            made = constructed_on_meta(found.construct)()
    except Exception:  # it reads a file, say
        return None
    return found if _tensors(made) == _tensors(module) else None


def fitted(model: Sized, settings: Mapping[Setting, Any]) -> Sized:
    """A model at settings of the user's, its inputs resized where it does not take them as they are.

    Args:
        model: as it is given. Inputs without numbers get some.
        settings: that are moved.

    Raises:
        Exception: the original's own, where it takes neither.
    """
    before = model.settings()
    args, kwargs = pytree.tree_map(_with_numbers, (model.args, model.kwargs))
    there = replace(model, args=args, kwargs=kwargs)
    for setting, value in settings.items():
        there = there.at(setting, value, there.args, there.kwargs)
        if type(before[setting]) is int and before[setting] > 1:
            resize = partial(_resized, old=before[setting], new=value)
            args, kwargs = pytree.tree_map(resize, (args, kwargs))
    resized = replace(there, args=args, kwargs=kwargs)
    found = next(filter(None, (_tried(each, False) for each in (there, resized))), None)
    if found is None:
        _run(there, False)
    return found or there


def _with_numbers(leaf: Any) -> Any:
    """A tensor of the meta device as one that has numbers."""
    if not isinstance(leaf, torch.Tensor) or not leaf.is_meta:
        return leaf
    if leaf.is_floating_point() or leaf.is_complex():
        return torch.randn(leaf.shape, dtype=leaf.dtype)
    return torch.randint(0, 2, leaf.shape).to(leaf.dtype)


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


def _beside(model: Sized, setting: Setting) -> Iterator[Sized]:
    value = model.settings()[setting]
    for other in _neighbours(value):
        yield model.at(setting, other, model.args, model.kwargs)
        if type(value) is int and value > 1:
            resized = pytree.tree_map(partial(_resized, old=value, new=other), (model.args, model.kwargs))
            yield model.at(setting, other, *resized)


def _neighbours(value: Any) -> tuple[Any, ...]:
    if isinstance(value, tuple | list):
        return tuple(map(type(value), zip(*map(_neighbours, value), strict=False)))
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, float):
        # What is multiplied by 1 nobody writes.
        return tuple(other for other in (value / 2, value * 1.5) if other != 1) if value else (0.25,)
    small = (value + 1, 2 * value, value - 1)
    large = (2 * value, value // 2) if value <= _LARGE else (value // 2, 2 * value)
    others = small if value <= _SMALL else (*large, value + 1, value - 1)
    return tuple(dict.fromkeys(other for other in others if other > 0 and other != value))


def _resized(leaf: Any, old: int, new: int) -> Any:
    """A tensor that has another length wherever it had the old one: its numbers are cut off, or repeat."""
    if not isinstance(leaf, torch.Tensor) or old not in leaf.shape:
        return leaf
    for axis, length in enumerate(leaf.shape):
        if length == old:
            leaf = leaf.index_select(axis, torch.arange(new, device=leaf.device) % old)
    return leaf


def _tried(model: Sized, meta: bool) -> Sized | None:
    """A model that the original takes, and runs; None where it does not."""
    try:
        _run(model, meta)
    except Exception:
        return None
    return model


def _run(model: Sized, meta: bool) -> None:
    with again(0), torch.no_grad(), torch.device("meta") if meta else nullcontext():
        made = model.construct().eval()
        args, kwargs = on_meta(model.args, model.kwargs) if meta else copy.deepcopy((model.args, model.kwargs))
        made(*args, **kwargs)


def resized_axes(model: Sized, other: Sized) -> dict[tuple[int, int], str]:
    """The inputs' axes that have another length in a model at other settings → a setting that is as long.

    The tensors are numbered as they come in.
    """
    before, found = model.settings(), {}
    arrays = zip(_tensors_in(model), _tensors_in(other), strict=True)
    for number, (one, two) in enumerate(arrays):
        for axis, (old, new) in enumerate(zip(one.shape, two.shape, strict=True)):
            names = [setting[-1] for setting, value in other.moved.items() if (before[setting], value) == (old, new)]
            if old != new and names:
                found[number, axis] = names[0]
    return found


def _tensors_in(model: Sized) -> list[Any]:
    leaves = pytree.tree_leaves((model.args, model.kwargs))
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


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
    return type(value) in (bool, int, float)


def _tensors(module: Any) -> dict[str, Any]:
    return {name: tuple(tensor.shape) for name, tensor in module.state_dict().items() if hasattr(tensor, "shape")}
