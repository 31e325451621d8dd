"""Change fields of a ``transformers`` configuration, and recompute those that its constructor derives."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from typing import Any

PRIVATE = ("_experts_implementation",)
"""Attributes of a configuration that ``to_dict`` leaves out."""


def with_fields(config: Any, fields: Mapping[str, Any]) -> Any:
    """Return a copy of a configuration in which some fields have other values.

    A field that the constructor derives from these is recomputed, unless it was set explicitly: a backbone has as many
    names of stages as layers.

    Args:
        config: left unchanged.
        fields: of the configuration itself, not of one nested in it.
    """
    if derived := derived_fields(config, fields):
        return rebuilt(config, fields, without=derived)
    made = copy.deepcopy(config)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def derived_fields(config: Any, fields: Mapping[str, Any]) -> list[str]:
    """Return the names of the other fields that the constructor derives from some, and that have the derived values.

    Args:
        config: left unchanged.
        fields: the fields that change.
    """
    said = config.to_dict()
    own = {name: said[name] for name in fields if name in said}
    try:
        before, after = (type(config).from_dict(dict(values)).to_dict() for values in (own, fields))
        following = [name for name in after if name not in fields and after[name] != before.get(name)]
        made = rebuilt(config, without=following).to_dict() if following else {}
    except Exception:  # a configuration that needs all of its fields reports by itself what does not fit
        return []
    return [name for name in following if name in said and made.get(name) == said[name]]


def rebuilt(config: Any, fields: Mapping[str, Any] | None = None, without: Collection[str] = ()) -> Any:
    """Construct a configuration again from its fields: a translation then sees which number comes from which field.

    Args:
        config: left unchanged.
        fields: fields with other values.
        without: names of fields that the constructor sets.
    """
    said = {name: value for name, value in config.to_dict().items() if name not in without}
    made = type(config).from_dict(said | dict(fields or {}))
    for one, its in zip((made, *nested(made)), (config, *nested(config)), strict=True):
        for name in PRIVATE:
            setattr(one, name, getattr(its, name))
    return made


def nested(config: Any) -> list[Any]:
    """Return the configurations nested in one, such as those of its text and image models."""
    from transformers import PretrainedConfig

    inner = [value for value in vars(config).values() if isinstance(value, PretrainedConfig)]
    return [each for one in inner for each in (one, *nested(one))]
