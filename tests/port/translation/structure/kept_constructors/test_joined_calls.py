"""Merge the constructions of one call into an expression that is right for both."""

from __future__ import annotations

import pytest

from port.translation.ir import syntax
from port.translation.ir.expr import code
from port.translation.structure.kept_constructors.cannot_keep import CannotKeep
from port.translation.structure.kept_constructors.joined_calls import joined_constructions

TEXTS = ("size", "size[0]", "size[1]", "kwargs['size']")
HOLES = {f"h{number}": syntax.Hole(text) for number, text in enumerate(TEXTS)}


def made(arguments: str) -> syntax.Call:
    """A construction; ``h0`` … stand for the original's text."""
    found = code(f"nnx.Conv({arguments}, rngs=rngs)", **HOLES)
    assert isinstance(found, syntax.Call)
    return found


def joined(one: str, other: str) -> str:
    both = joined_constructions(made(one), made(other))
    assert joined_constructions(made(other), made(one)) == both
    assert joined_constructions(both, made(one)) == both
    assert joined_constructions(made(other), both) == both
    return syntax.source(both)


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ("strides=(h0, h0)", "strides=(h1, h2)", "strides=<size>"),
        ("padding=((h0, h0), (h0, h0))", "padding=((h1, h1), (h2, h2))", "padding=<size>"),
        (
            "kernel_size=(h0, h0)",
            "kernel_size=(h1, h2)",
            "kernel_size=(<size>,) * 2 if isinstance(<size>, int) else <size>",
        ),
        ("strides=(h3, h3)", "strides=(1, 1)", "strides=<kwargs.get('size', 1)>"),
        ("padding=((h3, h3), (h3, h3))", "padding=((0, 0), (0, 0))", "padding=<kwargs.get('size', 0)>"),
        ("feature_group_count=h3", "feature_group_count=1", "feature_group_count=<kwargs.get('size', 1)>"),
        ("features=h0, bias_init=zeros", "features=h0", "features=<size>, bias_init=zeros"),
    ],
)
def test_what_is_said_alike(one: str, other: str, both: str) -> None:
    assert joined(one, other) == f"nnx.Conv({both}, rngs=rngs)"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("strides=(h0, h0)", "strides=(1, 1)"),  # not from ``**kwargs``: the numbers differ
        ("strides=(h3, h3)", "strides=(1, 2)"),
        ("strides=(h2, h1)", "strides=(h0, h0)"),
        ("strides=(h0, h0)", "strides=(h3, h3)"),
        ("features=1", "features=2"),
        ("features=1, kernel_init=zeros", "features=1"),
        ("padding=((h1, h2), (h1, h2))", "padding=((h0, h0), (h0, h0))"),
    ],
)
def test_what_is_not(one: str, other: str) -> None:
    with pytest.raises(CannotKeep, match="one call makes"):
        joined_constructions(made(one), made(other))
