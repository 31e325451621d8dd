"""What `nnx.scan` does, round by round: a draw in it is traced once, and each round draws its own numbers."""

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
    """What `nnx.scan` does: through a stack of layers, or in rounds that take slices along the first axis.

    Args:
        rounds: of a loop that is no stack's; each draws in the layouts that its draws have.
        function: what is done, where it is not given later, as a decorator has it.
        length: of the loop.
        reverse: whether the last comes first.
        in_axes: of what the function is given: a stack is 0, the module of a loop that takes it along is no number.
        axes: what else `nnx.scan` is told.
    """
    import jax
    import jax.numpy as jnp

    if in_axes[0] == 0:
        layers = partial(_layer_by_layer, reverse=reverse)
        return layers if function is None else layers(function)

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(module: Any, carry: Any, *whole: Any) -> Any:
            count = length if length is not None else len(jax.tree.leaves(whole)[0])
            given = [None] * count
            places = reversed(range(count)) if reverse else range(count)
            for _, place in zip(rounds(count), places, strict=True):
                slices = jax.tree.map(lambda array, place=place: array[place], whole)
                carry, given[place] = function(module, carry, *slices)
            return carry, jax.tree.map(lambda *rounds: jnp.stack(rounds), *given)

        return run

    return decorated


def _layer_by_layer(function: Callable[[Any, Any], Any], *, reverse: bool) -> Callable[[Any, Any], Any]:
    """What `nnx.scan` does with a stack: each layer makes of a value the next one's, and keeps what it changes."""
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
