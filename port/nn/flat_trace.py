"""A model's jaxpr as one flat list of equations, with all calls inlined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.extend.core import ClosedJaxpr, Literal

_CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
    "checkpoint": "jaxpr",
    "remat": "jaxpr",
    "remat2": "jaxpr",
}
"""The primitives that call a jaxpr, and the parameter that holds it."""


@dataclass(frozen=True, eq=False)
class Variable:
    """A variable of a computation with inlined calls.

    Attributes:
        aval: its shape and dtype.
    """

    aval: Any


@dataclass(frozen=True)
class Equation:
    """One JAX primitive applied to variables and literals."""

    primitive: Any
    inputs: list[Any]
    outputs: list[Any]
    params: dict[str, Any]

    def of(self, operands: Sequence[Any], **params: Any) -> list[Any]:
        """Evaluate the equation on other inputs, with some parameters replaced."""
        results = self.primitive.bind(*operands, **{**self.params, **params})
        return list(results) if self.primitive.multiple_results else [results]


@dataclass(frozen=True)
class Traced:
    """The trace of a language model at one sequence length.

    Attributes:
        length: number of tokens.
        ids: the variable of the token ids.
        equations: in order.
        output: the variable of the model's first output.
        constants: variable → its value, such as a weight.
    """

    length: int
    ids: Any
    equations: list[Equation]
    output: Any
    constants: dict[Any, Any]

    def constant(self, atom: Any) -> Any:
        """Return the value of an atom that depends on no input, if it is known at trace time; else None."""
        if isinstance(atom, Literal):
            return atom.val
        if atom in self.constants:
            return self.constants[atom]
        for equation in self.equations:
            if atom in equation.outputs:
                values = [self.constant(one) for one in equation.inputs]
                if any(one is None or isinstance(one, jax.core.Tracer) for one in values):
                    return None
                with jax.ensure_compile_time_eval():
                    return equation.of(values)[equation.outputs.index(atom)]
        return None


def called_jaxpr(equation: Any) -> ClosedJaxpr | None:
    """Return the jaxpr that an equation calls: of a jitted function, of one with its own gradient, of a remat.

    A loop or a condition is no call: None, as for any other primitive.
    """
    holder = _CALLS.get(equation.primitive.name)
    if holder is None:
        return None
    inner = equation.params[holder]
    return inner if isinstance(inner, ClosedJaxpr) else ClosedJaxpr(inner, ())


def traced(model: nnx.Module, batch: int, length: int) -> Traced:
    """Trace a model on token ids of shape (batch, length)."""

    def forward(ids: jax.Array) -> jax.Array:
        first: jax.Array = jax.tree.leaves(model(ids))[0]  # type: ignore[operator]
        return first

    closed = jax.make_jaxpr(forward)(jnp.zeros((batch, length), int))
    equations: list[Equation] = []
    constants: dict[Any, Any] = {}
    ids = closed.jaxpr.invars[0]
    [output] = _inlined(closed, [ids], equations, constants)
    return Traced(length, ids, equations, output, constants)


def _inlined(closed: ClosedJaxpr, inputs: Sequence[Any], equations: list[Equation], constants: dict[Any, Any]) -> Any:
    """Append a jaxpr's equations to ``equations``, with fresh variables, and return its outputs."""
    known: dict[Any, Any] = dict(zip(closed.jaxpr.invars, inputs, strict=True))
    for variable, value in zip(closed.jaxpr.constvars, closed.consts, strict=True):
        known[variable] = fresh = Variable(variable.aval)
        constants[fresh] = value

    def of(atom: Any) -> Any:
        return atom if isinstance(atom, Literal) else known[atom]

    for equation in closed.jaxpr.eqns:
        operands = [of(atom) for atom in equation.invars]
        if (inner := called_jaxpr(equation)) is not None:
            results = _inlined(inner, operands, equations, constants)
        else:
            results = [Variable(variable.aval) for variable in equation.outvars]
            equations.append(Equation(equation.primitive, operands, results, dict(equation.params)))
        known.update(zip(equation.outvars, results, strict=True))
    return [of(atom) for atom in closed.jaxpr.outvars]
