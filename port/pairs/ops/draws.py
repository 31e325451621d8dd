"""What an operator's expression draws at random, and by which name it has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Key:
    """A fresh key of `jax.random`: ``key`` in the expression. What is drawn has the axes of the result."""

    name: ClassVar[str] = "key"


@dataclass(frozen=True)
class Dropout:
    """``dropout`` in the expression, a function of one array: in Flax a layer of the module whose code it stands in.

    What it drops has the axes of the result, but maybe for the last one's length.

    Attributes:
        rate: what is the probability of being dropped.
    """

    name: ClassVar[str] = "dropout"
    rate: str


Draws = Key | Dropout
