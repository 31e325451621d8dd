"""How a model of ``transformers`` is named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PREFIX = "transformers:"


def is_hub_target(target: str, fields: Mapping[str, Any]) -> bool:
    """Whether a target is a model of ``transformers`` that its configuration's fields say.

    ``transformers:BertModel`` with a ``config`` among its arguments is a class like any other.
    """
    return target.startswith(PREFIX) and "config" not in fields
