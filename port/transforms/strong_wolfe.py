"""torch's line search: torch/optim/lbfgs.py, ``_strong_wolfe`` and ``_cubic_interpolate``.

torch evaluates the function in three places: at the first step, while it searches for a bracket, and while it narrows
it.
Here it is one loop, in which the phase is part of the state, so that the function is traced and compiled once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

ValueAndFlatGrad = Callable[[jax.Array], tuple[jax.Array, jax.Array]]
"""The loss (a scalar) and its gradient (n,) at a step length along the direction."""


class Point(NamedTuple):
    """The function at a step length along the direction; two of them, stacked, form a bracket.

    Attributes:
        t: the step length.
        loss: the value there.
        gradient: (n,).
        slope: gradient · direction.
    """

    t: jax.Array
    loss: jax.Array
    gradient: jax.Array
    slope: jax.Array


class _Search(NamedTuple):
    """The search before an evaluation at ``t``, its ``iteration``-th (torch's ls_iter) from 0."""

    t: jax.Array
    iteration: jax.Array
    zooming: jax.Array  # torch's second loop
    running: jax.Array
    stalled: jax.Array  # torch's insuf_progress
    # Before zooming: the two last points, the older first. Then torch's bracket.
    bracket: Point
    low: jax.Array  # torch's low_pos, 0 or 1


def strong_wolfe(
    evaluate: ValueAndFlatGrad,
    t: jax.Array,
    direction: jax.Array,
    loss: jax.Array,
    gradient: jax.Array,
    slope: jax.Array,
    *,
    c1: float = 1e-4,
    c2: float = 0.9,
    tolerance_change: jax.typing.ArrayLike = 1e-9,
    max_ls: jax.typing.ArrayLike = 25,
) -> tuple[Point, jax.Array]:
    """Find a step length that satisfies the strong Wolfe conditions.

    loss(t) ≤ loss(0) + c1·t·slope(0), and |slope(t)| ≤ −c2·slope(0).

    All scalars have one dtype, and so do the vectors.

    Args:
        evaluate: the function along the direction.
        t: the first step length to try.
        direction: (n,).
        loss: at 0.
        gradient: (n,), at 0.
        slope: at 0, below 0.
        c1: the constant of the first condition.
        c2: the constant of the second.
        tolerance_change: a bracket shorter than this (in the largest parameter's change) is not narrowed.
        max_ls: the maximum number of evaluations after the first one.

    Returns:
        The point found, or the best of the bracket if evaluations or the bracket ran out, and the number of
        evaluations (int32).
    """
    longest = jnp.abs(direction).max()
    start = Point(jnp.zeros_like(t), loss, gradient, slope)

    def insufficient(point: Point) -> jax.Array:
        return point.loss > loss + c1 * point.t * slope

    def flat(point: Point) -> jax.Array:
        return jnp.abs(point.slope) <= -c2 * slope

    def look(search: _Search, point: Point) -> _Search:
        """torch's first loop: continue until a minimum is bracketed."""
        before = _at(search.bracket, 0)
        exhausted = search.iteration >= max_ls
        rises = insufficient(point) | ((search.iteration > 1) & (point.loss >= before.loss))
        done = ~exhausted & ~rises & flat(point)
        zooming = ~exhausted & ~done & (rises | (point.slope >= 0))
        first = _where(exhausted, start, _where(done, point, before))
        bounds = (point.t + 0.01 * (point.t - before.t), point.t * 10)
        return search._replace(
            t=_cubic_interpolate(before, point, bounds),
            zooming=zooming,
            running=~exhausted & ~done,
            bracket=_stack(first, point),
            low=_lower(first, point),
        )

    def zoom(search: _Search, point: Point) -> _Search:
        """torch's second loop: the new point replaces one end of the bracket."""
        low, high = search.low, 1 - search.low
        low_point, high_point = _at(search.bracket, low), _at(search.bracket, high)
        rises = insufficient(point) | (point.loss >= low_point.loss)
        done = ~rises & flat(point)
        turns = ~done & (point.slope * (high_point.t - low_point.t) >= 0)
        new_low = _where(rises, low_point, point)
        new_high = _where(rises, point, _where(turns, low_point, high_point))
        bracket = _where(low == 0, _stack(new_low, new_high), _stack(new_high, new_low))
        low = jnp.where(rises, _lower(_at(bracket, 0), _at(bracket, 1)), low)
        return search._replace(running=~done, bracket=bracket, low=low)

    def narrow(search: _Search) -> _Search:
        """The next step length within the bracket, unless it is too short."""
        first, second = _at(search.bracket, 0), _at(search.bracket, 1)
        t = _cubic_interpolate(first, second, None)
        left, right = _minimum(first.t, second.t), _maximum(first.t, second.t)
        margin = 0.1 * (right - left)
        close = _minimum(right - t, t - left) < margin
        # Close to an end for the second time, or beyond it: a tenth of the bracket away from that end.
        move = close & (search.stalled | (t >= right) | (t <= left))
        inside = jnp.where(jnp.abs(t - right) < jnp.abs(t - left), right - margin, left + margin)
        ends = (search.iteration >= max_ls) | (jnp.abs(second.t - first.t) * longest < tolerance_change)
        return search._replace(t=jnp.where(move, inside, t), stalled=close & ~move, running=search.running & ~ends)

    def body(search: _Search) -> _Search:
        loss, gradient = evaluate(search.t)
        point = Point(search.t, loss, gradient, dot(gradient, direction).astype(t.dtype))
        search = jax.lax.cond(search.zooming, zoom, look, search, point)
        search = jax.lax.cond(search.zooming, narrow, _keep_looking, search)
        return search._replace(iteration=search.iteration + 1)

    search = _Search(
        t=t,
        iteration=jnp.zeros([], jnp.int32),
        zooming=jnp.array(False),
        running=jnp.array(True),
        stalled=jnp.array(False),
        bracket=_stack(start, start),
        low=jnp.zeros([], jnp.int32),
    )
    search = jax.lax.while_loop(lambda search: search.running, body, search)
    return _at(search.bracket, search.low), search.iteration


def dot(a: jax.Array, b: jax.Array) -> jax.Array:
    """Σ a·b in full precision, which is not an accelerator's default."""
    return jnp.vdot(a, b, precision=jax.lax.Precision.HIGHEST)


def _keep_looking(search: _Search) -> _Search:
    """Replace the older point by the newest; a search that has ended keeps its bracket."""
    newest = _at(search.bracket, 1)
    older = _where(search.running, newest, _at(search.bracket, 0))
    return search._replace(bracket=_stack(older, newest))


def _cubic_interpolate(a: Point, b: Point, bounds: tuple[jax.Array, jax.Array] | None) -> jax.Array:
    """Minimize the cubic through two points, with their slopes, within the bounds (or the points)."""
    least, most = bounds if bounds is not None else (_minimum(a.t, b.t), _maximum(a.t, b.t))
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = d1**2 - a.slope * b.slope
    d2 = jnp.sqrt(jnp.maximum(square, 0))
    right = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2))
    left = a.t - (a.t - b.t) * ((a.slope + d2 - d1) / (a.slope - b.slope + 2 * d2))
    minimum = _minimum(_maximum(jnp.where(a.t <= b.t, right, left), least), most)
    # If there is no minimum, and if the square is NaN.
    return jnp.where(square >= 0, minimum, (least + most) / 2)


def _minimum(a: jax.Array, b: jax.Array) -> jax.Array:
    """Python's min, which keeps the first unless the second is less: a first NaN stays, a second one is ignored."""
    return jnp.where(b < a, b, a)


def _maximum(a: jax.Array, b: jax.Array) -> jax.Array:
    """Python's max."""
    return jnp.where(b > a, b, a)


def _lower(a: Point, b: Point) -> jax.Array:
    return jnp.where(a.loss <= b.loss, 0, 1).astype(jnp.int32)


def _stack(a: Point, b: Point) -> Point:
    return jax.tree.map(lambda *values: jnp.stack(values), a, b)


def _at(bracket: Point, index: jax.typing.ArrayLike) -> Point:
    return jax.tree.map(lambda values: values[index], bracket)


def _where(condition: jax.Array, a: Point, b: Point) -> Point:
    return jax.tree.map(lambda *values: jnp.where(condition, *values), a, b)
