"""Calls are shortened."""

from __future__ import annotations

import pytest

from port.translation.codegen.shorter import repeated
from port.translation.ir.syntax import Call, parsed, source


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("nnx.Sequential(B(4), B(4), B(4))", "nnx.Sequential(*[B(4) for _ in range(3)])"),
        ("nnx.Sequential(B(4), B(4))", "nnx.Sequential(B(4), B(4))"),
        ("nnx.Sequential(A(1), B(4), B(4), B(4))", "nnx.Sequential(A(1), *[B(4) for _ in range(3)])"),
        ("nnx.Sequential(nnx.relu, nnx.relu, nnx.relu)", "nnx.Sequential(nnx.relu, nnx.relu, nnx.relu)"),
        ("nnx.List([B(4), B(4), B(4)])", "nnx.List([B(4) for _ in range(3)])"),
        ("nnx.List([A(1), B(4), B(4), B(4)])", "nnx.List([A(1), *[B(4) for _ in range(3)]])"),
        ("other(B(4), B(4), B(4))", "other(B(4), B(4), B(4))"),
    ],
)
def test_equal_children(text: str, short: str) -> None:
    call = parsed(text)
    assert isinstance(call, Call)
    assert source(repeated(call)) == short
