"""Names of Flax's collections of variables, such as ``params``: names in files of ``port convert`` begin with them."""

from __future__ import annotations

from typing import Any

from flax import nnx


def collection_of(variable: Any) -> str:
    """Return the collection of a variable: Flax's name for its type, or the type's own for a type of the user's."""
    if not isinstance(variable, nnx.Variable):  # a bare array, which an nnx.Pytree may hold
        return "params"
    try:
        return nnx.variable_name_from_type(type(variable))
    except ValueError:
        return type(variable).__name__
