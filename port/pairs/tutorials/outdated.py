"""What a row of the table is: a line that a tutorial has, and what one writes in its place."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

GIVEN = """\
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

x = jnp.array([1.0, 2.0, 3.0])
params = {"b": jnp.zeros(()), "w": jnp.ones(3)}
gradients = {"b": jnp.ones(()), "w": x}
"""
"""What stands before the code of every row."""


class Fate(StrEnum):
    """What the old code does today."""

    GONE = "gone"
    WARNS = "warns"
    WORKS = "works, but"


@dataclass(frozen=True)
class Outdated:
    """One thing that tutorials of 2020 to 2022 say, and the libraries of today say otherwise.

    Attributes:
        id: its number in the table, "T12".
        says: code as a tutorial has it. It runs behind ``GIVEN``, as ``today`` does.
        fate: whether it is gone, gives a warning and the same result, or gives the same result and is merely no longer
            how it is said.
        happened: in a sentence, since which version, as far as the changelogs or the libraries' own messages say it.
        today: code that does the same, without a warning. Both leave what they find in ``result``.
        error: of what is gone, the kind of error that one sees.
        torch: what helps one who comes from PyTorch, if anything does.
    """

    id: str
    says: str
    fate: Fate
    happened: str
    today: str
    error: str = ""
    torch: str = ""
