"""Docstrings of generated definitions."""

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
    ("original", "paragraph"),
    [(Described, "What it does, in two lines."), (Parted, "What it does."), (OfParameters, ""), (Nothing, "")],
)
def test_the_first_paragraph_ends_where_parameters_are_described(original: type, paragraph: str) -> None:
    assert first_paragraph(original) == paragraph
    assert docstring(original).startswith(
        f"{paragraph}\n\n" if paragraph else f"Translated from {__name__}.{original.__name__}."
    )
