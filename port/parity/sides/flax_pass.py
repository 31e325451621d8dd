"""One forward and backward pass of a function of arrays in JAX, with torch's conventions for gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from port.errors import UsageError
from port.parity.sides.calls import Arrays
from port.parity.sides.compiling import run_once

Forward = Callable[..., tuple[dict[str, jax.Array], Any]]
"""Trees of arrays → outputs by name, and anything else to keep from the pass."""


@dataclass(frozen=True)
class Pulled:
    """The result of a pass.

    Attributes:
        outputs: the outputs by name.
        kept: the function's second result.
        gradients: the gradient of each argument, in its structure.
    """

    outputs: Arrays
    kept: Any
    gradients: tuple[Any, ...]


def flax_pass(
    forward: Forward,
    cotangents: Mapping[str, np.ndarray],
    *arguments: Any,
    constants: tuple[Any, ...] = (),
    jit: bool = False,
) -> Pulled:
    """Run a function forward, and pull cotangents back through its outputs.

    For complex numbers, torch's gradient is ∂L/∂re + i ∂L/∂im, and JAX's is its conjugate: cotangents and gradients are
    conjugated on the way in and out.

    Args:
        forward: a pure function.
        cotangents: cotangents by output name, in torch's convention; an output without one gets zeros.
        arguments: trees of floating arrays, which gradients are taken with respect to.
        constants: further arguments of the function.
        jit: compile the function; otherwise run it operation by operation.

    Raises:
        OtherShape: an output's shape differs from its cotangent's.
    """

    def run(arguments: Any, constants: Any, wanted: Any) -> tuple[dict[str, jax.Array], Any, tuple[Any, ...]]:
        outputs, pull, kept = jax.vjp(lambda *floating: forward(*floating, *constants), *arguments, has_aux=True)
        return outputs, kept, pull({name: _cotangent(name, leaf, wanted) for name, leaf in outputs.items()})

    wanted = {name: jnp.asarray(np.conj(array)) for name, array in cotangents.items()}
    operands = (arguments, constants, wanted)
    outputs, kept, gradients = run_once(run, *operands) if jit else run(*operands)
    as_torch = jax.tree.map(lambda leaf: np.conj(leaf) if jnp.iscomplexobj(leaf) else np.asarray(leaf), gradients)
    return Pulled({name: np.asarray(leaf) for name, leaf in outputs.items()}, kept, as_torch)


class OtherShape(UsageError):
    """An output's shape differs from the other side's."""

    def __init__(self, name: str, ours: tuple[int, ...], theirs: tuple[int, ...]) -> None:
        super().__init__(f"{name or 'the output'} has shape {ours}, but the original's has {theirs}")


def _cotangent(name: str, output: jax.Array, cotangents: Mapping[str, jax.Array]) -> Any:
    if not jnp.issubdtype(output.dtype, jnp.inexact):
        return np.zeros(output.shape, jax.dtypes.float0)
    if name not in cotangents:
        return jnp.zeros_like(output)
    if cotangents[name].shape != output.shape:
        raise OtherShape(name, output.shape, cotangents[name].shape)
    return cotangents[name].astype(output.dtype)
