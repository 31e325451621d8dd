"""The docstrings of what is written: what the original's says first, and what of PyTorch's it is."""

from __future__ import annotations

import inspect
import textwrap
from itertools import takewhile
from typing import Any

from port.translation.structure.kept_comments import is_worth_keeping

_WIDTH = 112
_SECTIONS = (":", "Args:", "Parameters")
"""How the description of parameters begins, on a line of its own."""


def docstring(original: Any) -> str:
    """The first paragraph of a class's or a function's docstring, and which of PyTorch's it is."""
    named = f"{original.__module__}.{original.__qualname__} of PyTorch."
    told = first_paragraph(original)
    return f"{told}\n\n{named}\n" if told else named


def first_paragraph(original: Any) -> str:
    """The first paragraph of its docstring; nothing where it has none of its own, or none that holds in JAX, too."""
    text = vars(original).get("__doc__") if isinstance(original, type) else inspect.getdoc(original)
    lines = inspect.cleandoc(text or "").split("\n\n")[0].splitlines()
    told = " ".join(" ".join(takewhile(lambda line: not line.strip().startswith(_SECTIONS), lines)).split())
    # One that speaks of torch's layout does not hold; nor is one a sentence that a dataclass gives itself.
    if not is_worth_keeping(told) or told.startswith(f"{original.__name__}("):
        return ""
    return textwrap.fill(told.replace("\\", "\\\\").replace('"""', "'''"), _WIDTH)
