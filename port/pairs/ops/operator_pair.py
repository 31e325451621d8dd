"""Operator pairs: a torch call and the equivalent JAX expression, both as source."""

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
"""Imports for the names in ``jax`` and ``only_if``; ``says`` needs ``import torch``."""


@dataclass(frozen=True)
class OperatorPair:
    """A torch operator and its JAX expression.

    Both are expressions over the same variables, named like torch's arguments. A variable is any argument (a tensor, a
    number, an axis) in its JAX form: an array, or a tuple where torch also takes a list. No layout is assumed. For
    ``only_if``, arrays may be replaced by objects with ``shape``, ``ndim`` and ``dtype``.

    Values, gradients, shapes and dtypes equal torch's, with x64 on and torch's default dtype equal to JAX's default
    float. Two conventions of torch are not covered: a 0-d tensor accepts axis 0, which JAX rejects; and in reductions
    an empty tuple of axes means all, in JAX none.

    Attributes:
        torch: the operator's public name (``"torch.cat"``, ``"torch.Tensor.expand"``, ``"torch.ops.my_lib.swish"``). An
            operator with several kinds of arguments has a pair for each.
        aten: base name of its overloads, with the namespace (``"aten.cat"``, ``"my_lib.swish"``); empty if torch
            composes it from others in Python, or if the shape of the result depends on values, so that no exported
            program contains it.
        says: the torch call, with the arguments in torch's order; keyword arguments may also be positional.
        jax: the JAX expression.
        only_if: condition of the pair, an expression over the same variables; empty without one.
        other_gradient: where JAX's gradient differs from torch's at equal values: an expression over the same variables
            and their values; empty if nowhere.
        left_out: defaults of variables that a torch call may omit.
        notes: ids of the relevant notes.
        axes: how the expression treats axes; None if they must be in torch's order.
        draws: its random input; None without one.
        schema: ATen's name of an argument → the variable, where they differ; an empty variable marks an argument that
            does not matter, or that ATen lacks. The first variable of ``says`` is ATen's ``self``.
        imports: import lines that ``jax`` and ``only_if`` need in addition to `GIVEN`; generated source starts with
            them.
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
        """Build the pair of a custom operator from its call: ``"torch.ops.my_lib.swish(x, beta)"``.

        Args:
            says: the call, with the argument names of the operator's schema.
            jax: the JAX expression.
            **more: the other attributes.
        """
        torch = says.partition("(")[0]
        return cls(torch, torch.removeprefix("torch.ops."), says, jax, **more)


def of_one(name: str, jax: str, *, module: str = "torch", aten: str | None = None, **more: Any) -> OperatorPair:
    """Pair an operator of one tensor, ``input``."""
    torch = f"{module}.{name}"
    return OperatorPair(torch, f"aten.{name}" if aten is None else aten, f"{torch}(input)", jax, **more)


def of_two(name: str, jax: str, *, module: str = "torch", aten: str | None = None, **more: Any) -> OperatorPair:
    """Pair an operator of two tensors, ``input`` and ``other``."""
    torch = f"{module}.{name}"
    return OperatorPair(torch, f"aten.{name}" if aten is None else aten, f"{torch}(input, other)", jax, **more)


def elementwise(name: str, jax: str, **more: Any) -> OperatorPair:
    """`of_one`, element by element."""
    return of_one(name, jax, axes=Each(), **more)


def elementwise_of_two(name: str, jax: str, **more: Any) -> OperatorPair:
    """`of_two`, element by element."""
    return of_two(name, jax, axes=Each(), **more)


def spatial(torch: str, aten: str, says: str, axes: Spatial, only_if: str = "", **more: Any) -> OperatorPair:
    """Pair an operator on images, with the expression of ``axes``."""
    return OperatorPair(torch, aten, says, axes.first, only_if, axes=axes, **more)
