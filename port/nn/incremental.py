"""Turn a causal language model into one with key and value caches, as a transformation of its JAX program.

The model is traced at the greatest length of a text. What does not depend on the tokens, such as masks and positions,
is computed unchanged; of the rest, only the rows of the tokens that a call reads. Where a token's row meets the rows
of other tokens, in a matrix product, the other rows come from a cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.extend.core import Literal

from port.errors import UsageError
from port.nn.flat_trace import Equation, Traced, traced
from port.nn.token_cache import TokenCache
from port.nn.token_rows import ELEMENTWISE, MOVES, REDUCTIONS, Rows, array_of, refused, reshaped, rows_of

TRIED = 7
"""Tokens of the text with which a model is traced, to find the caches that it needs."""


class Cached(nnx.Module):
    """Add caches to a model, for `port.nn.generate`: it is then called as ``model(ids, position, places)``.

    Args:
        model: called as ``model(ids)``, (batch, tokens) → logits (batch, tokens, vocabulary), or of the last token
            alone, (batch, 1, vocabulary); causal. Of a tuple or a dict, the first array is taken.

    Raises:
        UsageError: tokens meet in another operation than a matrix product; the message names it.
    """

    def __init__(self, model: nnx.Module) -> None:
        self.model = model
        reading = _Reading(traced(model, 2, TRIED), _no_cache, 0)
        jax.eval_shape(reading.run, jnp.zeros((2, 1), int))
        self.caches = nnx.List([TokenCache() for _ in range(reading.cached)])

    def __call__(self, ids: jax.Array, position: jax.Array | int, places: jax.Array) -> jax.Array:
        """Return the logits of tokens, (batch, tokens, vocabulary), the first of them at a position."""
        batch, room = ids.shape[0], len(places)

        def cache(number: int, tokens: jax.Array, axis: int) -> jax.Array:
            last = jnp.moveaxis(tokens, axis, -2)
            return jnp.moveaxis(self.caches[number](last, position, places), -2, axis)

        return _Reading(traced(self.model, batch, room), cache, position).run(ids)


def cached(model: nnx.Module) -> Cached:
    """Add key and value caches to a causal model; see `Cached`."""
    return Cached(model)


def _no_cache(number: int, tokens: jax.Array, axis: int) -> jax.Array:
    return jnp.zeros((*tokens.shape[:axis], TRIED, *tokens.shape[axis + 1 :]), tokens.dtype)


class _Reading:
    """Evaluates a traced model for some of a text's tokens.

    Args:
        traced: what the model computes for a whole text.
        cache: writes rows into the cache of a number, along an axis, and returns all rows.
        position: of the first token.
    """

    def __init__(
        self, traced: Traced, cache: Callable[[int, jax.Array, int], jax.Array], position: jax.Array | int
    ) -> None:
        self.traced, self.cache, self.position = traced, cache, position
        self.cached = self.tokens = 0

    def run(self, ids: jax.Array) -> jax.Array:
        """Return the logits of tokens, (batch, tokens, vocabulary)."""
        self.tokens = ids.shape[1]
        values: dict[Any, Any] = {**self.traced.constants, self.traced.ids: Rows(ids, 1)}

        def of(atom: Any) -> Any:
            return atom.val if isinstance(atom, Literal) else values[atom]

        for number, equation in enumerate(self.traced.equations):
            results = self._results(number, equation, [of(atom) for atom in equation.inputs])
            values.update(zip(equation.outputs, results, strict=True))
        logits = of(self.traced.output)
        if not isinstance(logits, Rows) or logits.array.ndim != 3:
            raise UsageError("the model must return logits (batch, tokens, vocabulary) that depend on its tokens")
        return logits.array

    def _results(self, number: int, equation: Equation, operands: list[Any]) -> Sequence[Any]:
        name, rows = equation.primitive.name, [one for one in operands if isinstance(one, Rows)]
        if not rows:
            return equation.of(operands)
        if all(one.tokens is None for one in rows):
            return [Rows(one, None) for one in equation.of(list(map(array_of, operands)))]
        if name == "dot_general":
            return [self._product(number, equation, *operands)]
        if name not in MOVES:
            raise refused(equation)
        made = MOVES[name](self, equation, *operands)
        return made if isinstance(made, list) else [made]

    def _product(self, number: int, equation: Equation, left: Any, right: Any) -> Rows:
        (contracted, batched) = equation.params["dimension_numbers"]
        sides, free = [left, right], []
        for side in (0, 1):
            ndim = len(equation.inputs[side].aval.shape)
            free.append([i for i in range(ndim) if i not in contracted[side] and i not in batched[side]])
        order = [*batched[0], *free[0]], [*batched[1], *free[1]]

        def place(side: int, axis: int) -> int:
            found = order[side].index(axis)
            return found if side == 0 or axis in batched[1] else found + len(free[0])

        rows = [isinstance(one, Rows) and one.tokens is not None for one in sides]
        tokens, others = None, None
        if all(rows):
            seen = [sides[side].tokens in free[side] for side in (0, 1)]
            if all(seen):  # queries and keys
                ends = [place(side, sides[side].tokens) for side in (0, 1)]
                key = 0 if self._is_key(number, equation.outputs[0], ends[0], ends[1]) else 1
                sides[key] = self._all_rows(sides[key])
                tokens, others = ends[1 - key], ends[key]
            else:
                for side in (0, 1):
                    own, theirs = sides[side], sides[1 - side]
                    meets = list(zip(contracted[side], contracted[1 - side], strict=True))
                    if own.others is not None and (own.others, theirs.tokens) in meets:  # weights and values
                        sides[1 - side] = self._all_rows(theirs)
                        tokens = place(side, own.tokens)
                        break
                    if (own.tokens, theirs.tokens) in zip(batched[side], batched[1 - side], strict=True):
                        tokens = place(side, own.tokens)
                        break
        else:
            side = 0 if rows[0] else 1
            if not any(rows):
                side = 0 if isinstance(left, Rows) else 1
            own = sides[side]
            if own.tokens is not None and own.tokens not in contracted[side]:
                tokens = place(side, own.tokens)
                if own.tokens in batched[side]:
                    there = batched[1 - side][batched[side].index(own.tokens)]
                    other = sides[1 - side]
                    sides[1 - side] = (
                        Rows(other.array, None) if isinstance(other, Rows) else rows_of(self, other, there)
                    )
                if own.others is not None and own.others not in contracted[side]:
                    others = place(side, own.others)
            elif own.tokens is not None:
                raise refused(equation)
        if tokens is None and any(rows):
            raise refused(equation)
        return Rows(equation.of(list(map(array_of, sides)))[0], tokens, others)

    def _all_rows(self, rows: Rows) -> jax.Array:
        assert rows.tokens is not None
        self.cached += 1
        return self.cache(self.cached - 1, rows.array, rows.tokens)

    def _is_key(self, number: int, scores: Any, axis: int, other: int) -> bool:
        """Tell whether of two axes of scores a softmax sums over the first, and not over the second."""
        followed: dict[int, tuple[int, int]] = {id(scores): (axis, other)}
        for equation in self.traced.equations[number + 1 :]:
            name, params = equation.primitive.name, equation.params
            for place, atom in enumerate(equation.inputs):
                if id(atom) not in followed:
                    continue
                axes = followed[id(atom)]
                summed: Sequence[int] = ()
                if name in REDUCTIONS:
                    summed = params["axes"]
                elif name == "dot_general":
                    summed = params["dimension_numbers"][0][place]
                hits = [each in summed for each in axes]
                if any(hits):
                    return hits[0]
                if name in ELEMENTWISE:
                    followed[id(equation.outputs[0])] = axes
                elif name == "transpose":
                    permutation = params["permutation"]
                    followed[id(equation.outputs[0])] = (permutation.index(axes[0]), permutation.index(axes[1]))
                elif name == "broadcast_in_dim":
                    dimensions = params["broadcast_dimensions"]
                    followed[id(equation.outputs[0])] = (dimensions[axes[0]], dimensions[axes[1]])
                elif name == "reshape":
                    at = [reshaped(atom.aval.shape, equation.outputs[0].aval.shape, each) for each in axes]
                    if at[0] is not None and at[1] is not None:
                        followed[id(equation.outputs[0])] = (at[0], at[1])
        return False
