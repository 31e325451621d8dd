"""Evaluate Flax's model without its casts to narrow dtypes, to see whether they alone cause the divergence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from port.parity.diagnose.causes.between import Relation
from port.parity.diagnose.causes.target import Target
from port.parity.sides.calls import RecordedCall, is_floating, numpy_leaves
from port.parity.sides.run import Run
from port.parity.sides.structure import leaves, rebuilt

_BITS = {"float32": 23, "tf32": 10, "float16": 10, "bfloat16": 7}
"""Mantissa bits."""
_SAID = {
    "float32": ("narrow-float32", "goes through float32"),
    "tf32": ("tf32-products", "rounds to TF32"),
    "float16": ("narrow-float16", "goes through float16"),
    "bfloat16": ("narrow-bfloat16", "goes through bfloat16"),
}
_INNER = ("jaxpr", "call_jaxpr", "fun_jaxpr")


def narrowed(target: Target) -> Iterator[Relation]:
    """Yield the narrow dtype that something goes through, if the two agree once nothing does."""
    if target.models.torch.precision != "float64":
        return
    wide = _Wide()
    done = wide.run(target)
    if wide.dropped and target.agrees_with(done, target.models.limits.forward):
        least = min(wide.dropped, key=_BITS.__getitem__)
        kind, said = _SAID[least]
        yield Relation(kind, f"Flax {said} there, torch does not", "Remove the cast, or compare with rtol=1e-6.")


class _Wide:
    """Evaluate a jaxpr with every floating number in float64.

    Attributes:
        dropped: the dtypes of the casts that were removed.
    """

    def __init__(self) -> None:
        self.dropped: set[str] = set()

    def run(self, target: Target) -> Run:
        """Return Flax's forward pass, in its own layout: its outputs and the call that differs."""
        side, models, seen = target.models.flax, target.models, {}

        def traced() -> dict[str, Any]:
            output, calls = side.traced(models.flax_inputs, training=target.training)
            call = next((c for c in calls if target.flax is not None and c.key == target.flax.key), None)
            if call is not None:
                seen["call"] = call
            inner = () if call is None else ((*call.args, call.kwargs), call.output)
            parts = enumerate((output, *inner))
            return {f"{place}|{name}": leaf for place, part in parts for name, leaf in leaves(part).items()}

        jaxpr, shapes = jax.make_jaxpr(traced, return_shape=True)()
        names = list(shapes)
        if not _narrows(jaxpr.jaxpr):
            return Run({})
        values = dict(
            zip(sorted(names), jax.jit(self._evaluated, static_argnums=0)(jaxpr.jaxpr, jaxpr.consts, ()), strict=True)
        )
        parts: list[dict[str, Any]] = [{}, {}, {}]
        for name, value in values.items():
            place, _, own = name.partition("|")
            parts[int(place)][own] = value
        outputs = {name: jax.device_get(value) for name, value in parts[0].items()}
        calls = []
        if "call" in seen:
            call = seen["call"]
            *args, kwargs = rebuilt((*call.args, call.kwargs), lambda name, leaf: parts[1][name])
            output = rebuilt(call.output, lambda name, leaf: parts[2][name])
            calls = [RecordedCall(call.path, call.number, tuple(args), kwargs, output)]
        return Run(numpy_leaves(outputs), calls)

    def _evaluated(self, jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
        values: dict[Any, Any] = {}

        def read(variable: Any) -> Any:
            return _widened(variable.val if isinstance(variable, Literal) else values[variable])

        values.update(zip(jaxpr.constvars, consts, strict=True))
        values.update(zip(jaxpr.invars, args, strict=True))
        for equation in jaxpr.eqns:
            operands = [read(variable) for variable in equation.invars]
            gives = self._done(equation, operands)
            values.update(zip(equation.outvars, gives, strict=True))
        return [read(variable) for variable in jaxpr.outvars]

    def _done(self, equation: Any, operands: list[Any]) -> list[Any]:
        name, params = equation.primitive.name, equation.params
        if name == "convert_element_type" and jnp.issubdtype(params["new_dtype"], jnp.floating):
            dtype = str(params["new_dtype"])
            if dtype in _BITS and is_floating(operands[0]) and _was_wide(equation):
                self.dropped.add(dtype)
            return [jnp.asarray(operands[0], jnp.float64)]
        if name == "reduce_precision":
            self.dropped.add(_of_bits(params["exponent_bits"], params["mantissa_bits"]))
            return operands
        inner = next((params[key] for key in _INNER if isinstance(params.get(key), ClosedJaxpr | Jaxpr)), None)
        if inner is not None and name not in ("scan", "while", "cond"):
            is_closed = isinstance(inner, ClosedJaxpr)
            return self._evaluated(inner.jaxpr if is_closed else inner, inner.consts if is_closed else (), operands)
        if name == "dot_general":
            params = {**params, "preferred_element_type": None, "precision": jax.lax.Precision.HIGHEST}
        found = equation.primitive.bind(*operands, **params)
        return list(found) if equation.primitive.multiple_results else [found]


def _narrows(jaxpr: Jaxpr) -> bool:
    """Whether anything in a jaxpr is rounded to less than float64."""
    for equation in jaxpr.eqns:
        name, params = equation.primitive.name, equation.params
        if name == "reduce_precision" or (
            name == "convert_element_type" and str(params["new_dtype"]) in _BITS and _was_wide(equation)
        ):
            return True
        inner = [params[key] for key in _INNER if isinstance(params.get(key), ClosedJaxpr | Jaxpr)]
        if any(_narrows(each.jaxpr if isinstance(each, ClosedJaxpr) else each) for each in inner):
            return True
    return False


def _was_wide(equation: Any) -> bool:
    return str(getattr(equation.invars[0].aval, "dtype", "")) == "float64"


def _widened(value: Any) -> Any:
    return jnp.asarray(value, jnp.float64) if is_floating(jnp.asarray(value)) else value


def _of_bits(exponent: int, mantissa: int) -> str:
    if mantissa >= 23:
        return "float32"
    return "bfloat16" if mantissa == 7 else "float16" if exponent == 5 else "tf32"
