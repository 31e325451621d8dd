"""Unrolled `nnx.scan`, for replayed draws: scan traces a draw once, while each iteration needs its own numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any


def round_by_round(
    rounds: Callable[[int], Iterator[int]],
    function: Callable[..., Any] | None = None,
    *,
    length: int | None = None,
    reverse: bool = False,
    in_axes: Any,
    **axes: Any,
) -> Callable[..., Any]:
    """Replace `nnx.scan` by a Python loop, over a stack of layers or over slices along the first axis.

    Args:
        rounds: yields the iterations of a loop that is not over a stack, and sets the layouts of each one's draws.
        function: the body; None if used as a decorator.
        length: the number of iterations.
        reverse: whether to go from the last to the first.
        in_axes: the axes of the body's arguments; the first is 0 for a stack of layers, and no number for a module that
            is carried.
        axes: `nnx.scan`'s other arguments, ignored.
    """
    import jax
    import jax.numpy as jnp

    if in_axes[0] == 0:
        layers = partial(_layer_by_layer, reverse=reverse)
        return layers if function is None else layers(function)

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(module: Any, carry: Any, *whole: Any) -> Any:
            count = length if length is not None else len(jax.tree.leaves(whole)[0])
            outputs = [None] * count
            places = reversed(range(count)) if reverse else range(count)
            for _, place in zip(rounds(count), places, strict=True):
                slices = jax.tree.map(lambda array, place=place: array[place], whole)
                carry, outputs[place] = function(module, carry, *slices)
            return carry, jax.tree.map(lambda *rounds: jnp.stack(rounds), *outputs)

        return run

    return decorated


def _layer_by_layer(function: Callable[[Any, Any], Any], *, reverse: bool) -> Callable[[Any, Any], Any]:
    """Apply the layers of a stack one after the other, and store the state that each one changes."""
    import jax
    import jax.numpy as jnp
    from flax import nnx

    def run(stack: Any, carry: Any) -> Any:
        graph, state = nnx.split(stack)
        count = len(jax.tree.leaves(state)[0])
        left: list[Any] = [None] * count
        for place in reversed(range(count)) if reverse else range(count):
            layer = nnx.merge(graph, jax.tree.map(lambda array, place=place: array[place], state))
            carry = function(layer, carry)
            left[place] = nnx.state(layer)
        nnx.update(stack, jax.tree.map(lambda *layers: jnp.stack(layers), *left))
        return carry

    return run
