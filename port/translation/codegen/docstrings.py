"""Docstrings of generated definitions: the original's first paragraph, and the original's qualified name."""

from __future__ import annotations

import inspect
import textwrap
from itertools import takewhile
from typing import Any

from port.translation.structure.kept_comments import is_worth_keeping

_WIDTH = 112
_SECTIONS = (":", "Args:", "Parameters")
"""Starts of a line that begins the description of the parameters."""


def docstring(original: Any) -> str:
    """Return the docstring for a translated class or function: the original's first paragraph and qualified name."""
    named = f"Translated from {original.__module__}.{original.__qualname__}."
    paragraph = first_paragraph(original)
    return f"{paragraph}\n\n{named}\n" if paragraph else named


def first_paragraph(original: Any) -> str:
    """Return the first paragraph of the original's docstring; empty if it has none, or none that holds in JAX."""
    text = vars(original).get("__doc__") if isinstance(original, type) else inspect.getdoc(original)
    lines = inspect.cleandoc(text or "").split("\n\n")[0].splitlines()
    paragraph = " ".join(" ".join(takewhile(lambda line: not line.strip().startswith(_SECTIONS), lines)).split())
    # A paragraph about torch's layout does not hold in JAX. A dataclass without a docstring gets its signature as one.
    if not is_worth_keeping(paragraph) or paragraph.startswith(f"{original.__name__}("):
        return ""
    return textwrap.fill(paragraph.replace("\\", "\\\\").replace('"""', "'''"), _WIDTH)
