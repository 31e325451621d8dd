"""Tensors that the original's code makes of numbers."""

from __future__ import annotations

import ast

import pytest
import torch

from port.errors import NoPair
from port.translation.constants import constant


def test_numbers_that_the_code_made() -> None:
    text = ast.unparse(ast.fix_missing_locations(constant(torch.tensor([[True, False]]))))
    assert text == "jnp.array([[True, False]], jnp.bool_)"
    with pytest.raises(NoPair, match="257 numbers: make it a buffer"):
        constant(torch.zeros(257))
