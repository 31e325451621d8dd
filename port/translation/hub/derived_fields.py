"""A configuration of ``transformers`` with other fields: what its own code makes of these is made anew."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from typing import Any

PRIVATE = ("_experts_implementation",)
"""What a configuration holds beside its fields, and does not say in its dict."""


def with_fields(config: Any, fields: Mapping[str, Any]) -> Any:
    """The same configuration where some of its fields have other values.

    A field that its constructor makes of these is made anew, unless somebody has set it: the names of a backbone's
    stages, of which there are as many as layers.

    Args:
        config: stays as it is.
        fields: of the configuration itself, and of none within it.
    """
    if derived := derived_fields(config, fields):
        return anew(config, fields, without=derived)
    made = copy.deepcopy(config)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def derived_fields(config: Any, fields: Mapping[str, Any]) -> list[str]:
    """The other fields of a configuration that its constructor makes of some, and that have just the values it makes.

    Args:
        config: stays as it is.
        fields: those that move.
    """
    said = config.to_dict()
    own = {name: said[name] for name in fields if name in said}
    try:
        before, behind = (type(config).from_dict(dict(values)).to_dict() for values in (own, fields))
        following = [name for name in behind if name not in fields and behind[name] != before.get(name)]
        made = anew(config, without=following).to_dict() if following else {}
    except Exception:  # a configuration that is none without all of its fields says by itself what does not fit
        return []
    return [name for name in following if name in said and made.get(name) == said[name]]


def anew(config: Any, fields: Mapping[str, Any] | None = None, without: Collection[str] = ()) -> Any:
    """A configuration made once more from its fields: so a translation sees which number comes from which of them.

    Args:
        config: stays as it is.
        fields: that have other values.
        without: names of fields that are left to the constructor.
    """
    said = {name: value for name, value in config.to_dict().items() if name not in without}
    made = type(config).from_dict(said | dict(fields or {}))
    for one, its in zip((made, *nested(made)), (config, *nested(config)), strict=True):
        for name in PRIVATE:
            setattr(one, name, getattr(its, name))
    return made


def nested(config: Any) -> list[Any]:
    """The configurations within one: of its text, its images."""
    from transformers import PretrainedConfig

    inner = [value for value in vars(config).values() if isinstance(value, PretrainedConfig)]
    return [each for one in inner for each in (one, *nested(one))]
