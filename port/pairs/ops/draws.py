"""Random inputs of an operator's expression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Key:
    """A fresh `jax.random` key, named ``key`` in the expression. Draws have the result's axes."""

    name: ClassVar[str] = "key"


@dataclass(frozen=True)
class Dropout:
    """A function of one array, named ``dropout`` in the expression; in Flax a layer of the enclosing module.

    Its input has the result's axes, possibly with another length of the last.

    Attributes:
        rate: the argument with the dropout probability.
    """

    name: ClassVar[str] = "dropout"
    rate: str


Draws = Key | Dropout
