"""The docstrings of what is written."""

from __future__ import annotations

import pytest

from port.translation.codegen.docstrings import docstring, first_paragraph


class Described:
    """What it does,
    in two lines.
    Args:
        width: of it.
    """


class Parted:
    """What it does.

    Args:
        width: of it.
    """


class OfParameters:
    """:param width: of it."""


class Nothing:
    pass


@pytest.mark.parametrize(
    ("original", "told"),
    [(Described, "What it does, in two lines."), (Parted, "What it does."), (OfParameters, ""), (Nothing, "")],
)
def test_the_first_paragraph_ends_where_parameters_are_described(original: type, told: str) -> None:
    assert first_paragraph(original) == told
    assert docstring(original).startswith(f"{told}\n\n" if told else f"{__name__}.{original.__name__} of PyTorch.")
