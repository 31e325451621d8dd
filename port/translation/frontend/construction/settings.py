"""The settings of a model: the numbers and switches among its constructor's arguments and configurations."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from port.translation.frontend.construction.arguments import is_configuration
from port.translation.frontend.construction.constructed import Construction, is_alike
from port.translation.frontend.construction.constructed_values import Call, made_anew
from port.translation.frontend.construction.replaced_functions import Replaced, put_in_place, replaced_functions
from port.translation.frontend.example_inputs import Given
from port.translation.frontend.meta_device import constructed_on_meta
from port.translation.frontend.python_random import reseeded

Setting = tuple[str, ...]
"""An argument's name; for a configuration, followed by the field's name, and so on inward."""
_DEEPEST = 3
"""How deeply nested configurations are followed."""


@dataclass(frozen=True)
class ConfiguredModel:
    """A model at some settings.

    Attributes:
        cls: its class.
        arguments: its constructor's arguments by name.
        calls: example calls that it accepts, each as positional and keyword arguments.
        moved: the settings that differ from the original's, with their values.
        replaced: class → the layer that replaces it after construction.
    """

    cls: type
    arguments: Mapping[str, Any]
    calls: tuple[Given, ...]
    moved: Mapping[Setting, Any] = field(default_factory=dict)
    replaced: Replaced = field(default_factory=dict)

    @property
    def named(self) -> dict[str, Any]:
        """The moved settings by dotted names: ``heads``, ``config.n_head``."""
        return {".".join(setting): value for setting, value in self.moved.items()}

    def construct(self) -> Any:
        """Construct the model at these settings, replacements included."""
        made = self.construct_without_replacements()
        put_in_place(made, self.replaced)
        return made

    def construct_without_replacements(self, call: Call | None = None) -> Any:
        """Construct the model at these settings, without replacements.

        Args:
            call: makes the modules and objects among the arguments; by default a plain call.
        """
        return self.cls(**made_anew(dict(self.arguments), call))

    def settings(self) -> dict[Setting, Any]:
        """Return the numbers and switches among the constructor's arguments and in its configurations."""
        return dict(_settings(self.arguments))

    def at(self, setting: Setting, value: Any) -> ConfiguredModel:
        """Return a copy with one setting moved."""
        return replace(self, arguments=_with(self.arguments, setting, value), moved={**self.moved, setting: value})


def configured_model(construction: Construction, module: Any, calls: Iterable[Given]) -> ConfiguredModel | None:
    """Return a module at its own settings; None where its class makes a different model from the same arguments."""
    if "" not in construction.arguments:
        return None
    found = ConfiguredModel(type(module), construction.arguments[""], tuple(calls))
    try:
        with reseeded(0):
            made = constructed_on_meta(found.construct_without_replacements)()
    except Exception:  # the constructor may read a file, say
        return None
    found = replace(found, replaced=replaced_functions(made, module))
    put_in_place(made, found.replaced)
    return found if is_alike(made, module) else None


def _settings(held: Mapping[str, Any], before: Setting = ()) -> Iterator[tuple[Setting, Any]]:
    for name, value in held.items():
        if is_configuration(value) and len(before) < _DEEPEST:
            yield from _settings(vars(value), (*before, name))
        elif _is_setting(value):
            yield (*before, name), value


def _with(held: Mapping[str, Any], setting: Setting, value: Any) -> dict[str, Any]:
    """Return the arguments with one setting changed; configurations on the way to it are copied."""
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
