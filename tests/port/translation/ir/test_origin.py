"""Short texts of origins."""

from __future__ import annotations

import pytest

from port.translation.ir.origin import AttributeOf, DefaultOf, LengthOf, LiteralAt, Origin, WorkedOut, said
from port.translation.ir.source_location import SourceLocation

HERE = SourceLocation("net.py", 12)
DIM, HEADS = AttributeOf("blocks.0.attn", "dim"), AttributeOf("blocks.0.attn", "config.heads")
TWO, LENGTH = LiteralAt(2, HERE, 8), LengthOf("x", -1, HERE)


@pytest.mark.parametrize(
    ("origin", "text"),
    [
        (TWO, "12:8"),
        (DIM, "self.dim"),
        (AttributeOf("blocks.0.attn.proj", "out_features"), "self.proj.out_features"),
        (AttributeOf("blocks.1.attn", "dim"), "blocks.1.attn.dim"),
        (AttributeOf("", "dim"), "the model.dim"),
        (LENGTH, "x.shape[-1]"),
        (DefaultOf("aten.add.Tensor", "alpha"), "default"),
        (WorkedOut("//", (DIM, HEADS)), "self.dim // self.config.heads"),
        (WorkedOut("*", (WorkedOut("-", (DIM, TWO)), HEADS)), "(self.dim - 12:8) * self.config.heads"),
        (WorkedOut("-", (DIM,)), "-self.dim"),
        (WorkedOut("/", (TWO, WorkedOut("math.sqrt", (LENGTH,)))), "12:8 / math.sqrt(x.shape[-1])"),
    ],
)
def test_an_origin_is_said_as_the_source_has_it(origin: Origin, text: str) -> None:
    assert said(origin, "blocks.0.attn") == text


def test_the_models_own_attributes_are_selfs_in_its_own_code() -> None:
    assert said(AttributeOf("", "dim")) == "self.dim"
    assert said(AttributeOf("proj", "dim")) == "self.proj.dim"
