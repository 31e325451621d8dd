"""What the pair of an operator is: a call of torch's and the JAX expression that gives the same, both as source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

GIVEN = """\
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import port.nn.functional as F
"""
"""How the names that stand in ``jax`` and ``only_if`` have been imported; ``says`` needs ``import torch``."""


@dataclass(frozen=True)
class OperatorPair:
    """An operator of torch's and what a person writes for it in JAX.

    Both are expressions over the same variables, which are called as torch calls its arguments. A variable is whatever
    torch takes there (a tensor, a number, an axis), in its form in JAX: an array, a tuple where torch takes a list as
    well. Axes are as they are: nothing is assumed of where channels are. Of ``only_if`` and ``jax``, an array's shape
    and rank are known; its values, where they are asked for, are an array's.

    Values, gradients, shapes and dtypes are torch's, with x64 on, and torch's default dtype the default float of JAX.
    Two things of torch's no pair speaks of: a tensor without axes may be given axis 0, which JAX refuses; and an empty
    tuple of axes is all of them in reductions, none in JAX's.

    Attributes:
        torch: the operator's public name (``"torch.cat"``, ``"torch.Tensor.expand"``). One that takes arguments of
            several kinds has a pair for each.
        aten: the base name of its overloads in ATen (``"aten.cat"``); empty where torch composes it of others in
            Python.
        says: the call, with the arguments in torch's order: what stands behind them by name may be given by position.
        jax: the expression.
        only_if: what has to be so, an expression over the same variables; empty if nothing has to.
        other_gradient: where JAX has another gradient than torch, the values being the same: an expression over the
            same variables and their values; empty if nowhere.
        left_out: what a variable is that torch's call leaves out.
        notes: ids of the differences that a reader should know of.
    """

    torch: str
    aten: str
    says: str
    jax: str
    only_if: str = ""
    other_gradient: str = ""
    left_out: Mapping[str, Any] = field(default_factory=dict, hash=False)
    notes: tuple[str, ...] = ()


def elementwise(name: str, jax: str, *, module: str = "torch", aten: str | None = None, **more: Any) -> OperatorPair:
    """An operator that takes one tensor, ``input``, and nothing else."""
    torch = f"{module}.{name}"
    return OperatorPair(torch, f"aten.{name}" if aten is None else aten, f"{torch}(input)", jax, **more)


def of_two(name: str, jax: str, *, module: str = "torch", aten: str | None = None, **more: Any) -> OperatorPair:
    """An operator that takes two, ``input`` and ``other``, and nothing else."""
    torch = f"{module}.{name}"
    return OperatorPair(torch, f"aten.{name}" if aten is None else aten, f"{torch}(input, other)", jax, **more)
