"""Tensors that the original's code makes of numbers."""

from __future__ import annotations

import ast
from typing import Any

from port.errors import NoPair
from port.translation.code import code

_MOST_NUMBERS = 256


def constant(tensor: Any) -> ast.expr:
    """A tensor that the code made of numbers, as it is written.

    Raises:
        NoPair: it has too many numbers to be written.
    """
    if tensor.numel() > _MOST_NUMBERS:
        raise NoPair(f"a constant of {tensor.numel()} numbers: make it a buffer of the module (register_buffer)")
    dtype = code(f"jnp.{str(tensor.dtype).removeprefix('torch.').replace('bool', 'bool_')}")
    return code("jnp.array(numbers, dtype)", numbers=tensor.tolist(), dtype=dtype)
