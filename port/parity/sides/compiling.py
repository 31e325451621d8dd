"""Choose how much XLA optimises a program that runs once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any


@dataclass(frozen=True)
class Effort:
    """A set of XLA compiler options for the CPU, and its costs in processor seconds, in float64.

    Measured with jaxlib 0.10.2 on an AMD EPYC (Zen 3): training steps of torchvision's resnet18, densenet121 and
    mobilenet_v3_small and of a small vision transformer at 64 pixels, of an LSTM, and of single operators. Matrix
    products and dense convolutions take the same time with any effort.

    Attributes:
        options: the compiler options.
        compiling: seconds to compile an equation.
        looping: seconds per floating-point operation of a convolution that XLA computes in plain loops.
        elements: seconds per number in an equation's result.
        transcendental: the same for exponential functions and similar ones.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    compiling: float = 4e-3
    looping: float = 1 / 20e9
    elements: float = 0.5e-9
    transcendental: float = 3e-9

    def seconds(self, work: Work) -> float:
        """Return the seconds to compile a program and to run it once, without products and dense convolutions."""
        return (
            self.compiling * work.equations
            + self.looping * work.looped
            + self.elements * work.elements
            + self.transcendental * work.transcendental
        )


USUAL = Effort()
LITTLE = Effort(
    # XLA's older emitter of fused loops: without optimisation it compiles in half the time of the newer one.
    {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": 0},
    compiling=1e-3,
    looping=1 / 0.17e9,
    elements=2e-9,
    transcendental=15e-9,
)
_SURELY = 0.8
"""A lower effort is chosen if its estimated time is at most this share of the usual effort's."""


@dataclass
class Work:
    """The work of a program.

    Attributes:
        equations: the number of equations to compile; those of a loop count once.
        looped: floating-point operations of convolutions that XLA has no routine for: input gradients of strided ones,
            with the zeros between the numbers, and grouped ones, computed for all pairs of groups.
        elements: numbers in the results of its equations.
        transcendental: how many of these are exponential functions and similar ones.
    """

    equations: int = 0
    looped: float = 0
    elements: float = 0
    transcendental: float = 0


def work_of(jaxpr: Any) -> Work:
    """Return the work of a traced program.

    Args:
        jaxpr: the program.
    """
    work = Work()
    for equation, times in _equations(jaxpr, 1):
        work.equations += 1
        count = times * sum(prod(getattr(out.aval, "shape", ())) for out in equation.outvars)
        if equation.primitive.name == "conv_general_dilated":
            work.looped += times * _looped(equation)
        elif equation.primitive.name in _TRANSCENDENTAL:
            work.transcendental += count
        else:
            work.elements += count
    return work


_TRANSCENDENTAL = frozenset(
    [
        "exp",
        "exp2",
        "expm1",
        "log",
        "log1p",
        "tanh",
        "logistic",
        "erf",
        "erfc",
        "erf_inv",
        "sin",
        "cos",
        "tan",
        "pow",
        "atan2",
        "lgamma",
        "digamma",
    ]
)


def _equations(jaxpr: Any, times: float) -> Iterator[tuple[Any, float]]:
    """Yield each innermost equation, and how often it runs; in a loop of unknown length, once."""
    for equation in jaxpr.eqns:
        nested = [getattr(each, "jaxpr", each) for value in equation.params.values() for each in _each(value)]
        nested = [inner for inner in nested if hasattr(inner, "eqns")]
        rounds = equation.params.get("length", 1) if equation.primitive.name == "scan" else 1
        for inner in nested:
            yield from _equations(inner, times * rounds)
        if not nested:
            yield equation, times


def _each(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def _looped(equation: Any) -> float:
    """Return the floating-point operations of a convolution that is computed in plain loops; 0 for others."""
    groups = equation.params["feature_group_count"] * equation.params["batch_group_count"]
    if groups == 1 and prod(equation.params["lhs_dilation"]) == 1:
        return 0
    kernel = equation.invars[1].aval.shape
    out_features = kernel[equation.params["dimension_numbers"].rhs_spec[0]]
    return 2 * prod(equation.outvars[0].aval.shape) * prod(kernel) / max(1, out_features) * groups


def effort_for(work: Work) -> Effort:
    """Return the effort that takes the least time to compile a program and run it once."""
    return LITTLE if LITTLE.seconds(work) < _SURELY * USUAL.seconds(work) else USUAL


def run_once(function: Callable[..., Any], *args: Any) -> Any:
    """Compile a function, run it on arrays, and discard it.

    Args:
        function: a pure function.
        args: trees of arrays.
    """
    import jax

    traced = jax.jit(function).trace(*args)
    lowered = traced.lower()
    if _is_configured():
        return lowered.compile()(*args)
    try:
        compiled = lowered.compile(dict(effort_for(work_of(traced.jaxpr.jaxpr)).options))
    except jax.errors.JaxRuntimeError as error:
        if "compile option" not in str(error):
            raise
        # Other versions of XLA may lack this option.
        compiled = lowered.compile()
    return compiled(*args)


def _is_configured() -> bool:
    """Whether the user, or the tests, have set XLA's options."""
    import jax

    flags = os.environ.get("XLA_FLAGS", "")
    return any(name in flags for name in LITTLE.options) or bool(jax.config.read("jax_disable_most_optimizations"))
