"""What the pair of an operator is: a call of torch's and the JAX expression that gives the same, both as source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from port.pairs.ops.axes import Axes, Each, Spatial
from port.pairs.ops.draws import Draws

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
    well. Axes are as they are: nothing is assumed of where channels are.
    Where ``only_if`` is asked, arrays may be stood in for by what has their ``shape``, ``ndim`` and ``dtype``.

    Values, gradients, shapes and dtypes are torch's, with x64 on, and torch's default dtype the default float of JAX.
    Two things of torch's no pair speaks of: a tensor without axes may be given axis 0, which JAX refuses; and an empty
    tuple of axes is all of them in reductions, none in JAX's.

    Attributes:
        torch: the operator's public name (``"torch.cat"``, ``"torch.Tensor.expand"``, ``"torch.ops.my_lib.swish"``).
            One that takes arguments of several kinds has a pair for each.
        aten: the base name of its overloads with their namespace (``"aten.cat"``, ``"my_lib.swish"``); empty where
            torch composes it of others in Python, and where the shape of the result depends on values, so that no
            program can have it.
        says: the call, with the arguments in torch's order: what stands behind them by name may be given by position.
        jax: the expression.
        only_if: what has to be so, an expression over the same variables; empty if nothing has to.
        other_gradient: where JAX has another gradient than torch, the values being the same: an expression over the
            same variables and their values; empty if nowhere.
        left_out: what a variable is that torch's call leaves out.
        notes: ids of the differences that a reader should know of.
        axes: how the expression treats axes; None if they must be in torch's order.
        draws: what it draws at random; None if nothing.
        schema: what ATen calls an argument, and which variable it is, where the two are not called alike; the empty
            variable is that of an argument which does not matter, or which ATen does not have. The first variable of
            ``says`` is ATen's ``self``.
        imports: the lines that import what ``jax`` and ``only_if`` read beside `GIVEN`; the source that is written has
            them at its top.
    """

    torch: str
    aten: str
    says: str
    jax: str
    only_if: str = ""
    other_gradient: str = ""
    left_out: Mapping[str, Any] = field(default_factory=dict, hash=False)
    notes: tuple[str, ...] = ()
    axes: Axes | None = None
    draws: Draws | None = None
    schema: Mapping[str, str] = field(default_factory=dict, hash=False)
    imports: tuple[str, ...] = ()

    @classmethod
    def of(cls, says: str, jax: str, **more: Any) -> OperatorPair:
        """The pair of an operator of another library's, by its call: ``"torch.ops.my_lib.swish(x, beta)"``.

        Args:
            says: the call; arguments are called as in the operator's schema.
            jax: the expression; ``more`` are the other attributes.
        """
        torch = says.partition("(")[0]
        return cls(torch, torch.removeprefix("torch.ops."), says, jax, **more)


def of_one(name: str, jax: str, *, module: str = "torch", aten: str | None = None, **more: Any) -> OperatorPair:
    """An operator that takes one tensor, ``input``, and nothing else."""
    torch = f"{module}.{name}"
    return OperatorPair(torch, f"aten.{name}" if aten is None else aten, f"{torch}(input)", jax, **more)


def of_two(name: str, jax: str, *, module: str = "torch", aten: str | None = None, **more: Any) -> OperatorPair:
    """An operator that takes two, ``input`` and ``other``, and nothing else."""
    torch = f"{module}.{name}"
    return OperatorPair(torch, f"aten.{name}" if aten is None else aten, f"{torch}(input, other)", jax, **more)


def elementwise(name: str, jax: str, **more: Any) -> OperatorPair:
    """`of_one`, element by element."""
    return of_one(name, jax, axes=Each(), **more)


def elementwise_of_two(name: str, jax: str, **more: Any) -> OperatorPair:
    """`of_two`, element by element."""
    return of_two(name, jax, axes=Each(), **more)


def spatial(torch: str, aten: str, says: str, axes: Spatial, only_if: str = "", **more: Any) -> OperatorPair:
    """An operator on images, whose expression is that of ``axes``."""
    return OperatorPair(torch, aten, says, axes.first, only_if, axes=axes, **more)
