"""How hard XLA tries to optimise a pass that runs once: as hard as pays off."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any


@dataclass(frozen=True)
class Effort:
    """One way to have XLA compile for the CPU, and what it takes of a processor's time, in float64.

    Measured with jaxlib 0.10.2 on an AMD EPYC (Zen 3), in training steps of torchvision's resnet18, densenet121 and
    mobilenet_v3_small and a small vision transformer at 64 pixels and of an LSTM, and of single operators. Matrix
    products and dense convolutions take the same time with any effort.

    Attributes:
        options: of the compiler.
        compiling: seconds to compile an equation.
        looping: seconds of a floating-point operation of a convolution that XLA computes in plain loops.
        elements: seconds of a number that an equation gives.
        transcendental: seconds of one that is an exponential function or the like.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    compiling: float = 4e-3
    looping: float = 1 / 20e9
    elements: float = 0.5e-9
    transcendental: float = 3e-9

    def seconds(self, work: Work) -> float:
        """How long it takes to compile a program and to run it once, products and dense convolutions aside."""
        return (
            self.compiling * work.equations
            + self.looping * work.looped
            + self.elements * work.elements
            + self.transcendental * work.transcendental
        )


USUAL = Effort()
LITTLE = Effort(
    # XLA's older way to write fused loops: without optimisation it compiles in half of the other's time.
    {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": 0},
    compiling=1e-3,
    looping=1 / 0.17e9,
    elements=2e-9,
    transcendental=15e-9,
)
_SURELY = 0.8
"""What little effort may be estimated to take of the usual one's time to be chosen."""


@dataclass
class Work:
    """What a program does.

    Attributes:
        equations: how many there are to compile; a loop's once.
        looped: floating-point operations of convolutions that XLA has no routine for: the gradient of a strided one by
            its input, with all the zeros between the numbers; grouped ones, each group with all others.
        elements: numbers that its equations give.
        transcendental: of these, exponential functions and the like.
    """

    equations: int = 0
    looped: float = 0
    elements: float = 0
    transcendental: float = 0


def work_of(jaxpr: Any) -> Work:
    """What a traced program does.

    Args:
        jaxpr: of it.
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
    """Each equation that has none within, and how often it is run; of a loop of unknown length, once."""
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
    """The floating-point operations of a convolution, if it is computed in plain loops."""
    groups = equation.params["feature_group_count"] * equation.params["batch_group_count"]
    if groups == 1 and prod(equation.params["lhs_dilation"]) == 1:
        return 0
    kernel = equation.invars[1].aval.shape
    out_features = kernel[equation.params["dimension_numbers"].rhs_spec[0]]
    return 2 * prod(equation.outvars[0].aval.shape) * prod(kernel) / max(1, out_features) * groups


def effort_for(work: Work) -> Effort:
    """The effort with which compiling a program and running it once take the least time together."""
    return LITTLE if LITTLE.seconds(work) < _SURELY * USUAL.seconds(work) else USUAL


def run_once(function: Callable[..., Any], *args: Any) -> Any:
    """Compile a function, run it on arrays, and forget it.

    Args:
        function: pure.
        args: trees of arrays.
    """
    import jax

    traced = jax.jit(function).trace(*args)
    lowered = traced.lower()
    if _is_told():
        return lowered.compile()(*args)
    try:
        compiled = lowered.compile(dict(effort_for(work_of(traced.jaxpr.jaxpr)).options))
    except jax.errors.JaxRuntimeError as error:
        if "compile option" not in str(error):
            raise
        # Another version of XLA has no such option.
        compiled = lowered.compile()
    return compiled(*args)


def _is_told() -> bool:
    """Whether the user, or the tests, say how hard XLA tries."""
    import jax

    flags = os.environ.get("XLA_FLAGS", "")
    return any(name in flags for name in LITTLE.options) or bool(jax.config.read("jax_disable_most_optimizations"))
