"""Recognize models of ``transformers`` by their names on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PREFIX = "transformers:"


def is_hub_target(target: str, fields: Mapping[str, Any]) -> bool:
    """Whether a target is a model of ``transformers`` whose arguments are its configuration's fields.

    ``transformers:BertModel`` with a ``config`` among its arguments is treated as any other class.
    """
    return target.startswith(PREFIX) and "config" not in fields
