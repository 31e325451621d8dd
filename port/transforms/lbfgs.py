"""L-BFGS with PyTorch's semantics: torch.optim.LBFGS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

from port.errors import UnknownChoice, UsageError
from port.transforms.lbfgs_state import TorchLbfgsState, empty_lbfgs_state
from port.transforms.strong_wolfe import dot, strong_wolfe


class _Run(NamedTuple):
    """One torch step, between two of its inner iterations."""

    state: TorchLbfgsState
    position: jax.Array  # (n,), the parameters
    loss: jax.Array
    gradient: jax.Array
    iterations: jax.Array
    evaluations: jax.Array
    running: jax.Array


def torch_lbfgs(
    learning_rate: jax.typing.ArrayLike = 1.0,
    max_iter: int = 20,
    max_eval: int | None = None,
    tolerance_grad: float = 1e-7,
    tolerance_change: float = 1e-9,
    history_size: int = 100,
    line_search_fn: str | None = None,
    *,
    maximize: bool = False,
) -> optax.GradientTransformationExtraArgs:
    """torch.optim.LBFGS: one update is one ``step(closure)``, up to ``max_iter`` inner iterations.

        update(grads, state, params, value_and_grad_fn=jax.value_and_grad(loss_function))

    ``value_and_grad_fn(params) -> (loss, gradients)`` is torch's closure, and is evaluated as often as in torch, at
    the beginning too: the gradients passed in are ignored, as is what transformations before this one made of them.
    The update is the sum of the inner steps. Formula: torch/optim/lbfgs.py, ``LBFGS.step``.

    optax.lbfgs makes one inner iteration per update, and has none of torch's rules: the first step's length
    min(1, 1/|gradient|₁)·learning_rate, the pairs left out where change · step ≤ 1e-10, the five reasons to stop; its
    line search is different. On a quadratic function of twelve parameters the first iteration alone is off by 0.17.

    The state holds 2·history_size + 2 copies of the parameters, from the start; torch's grows to that.

    Args:
        learning_rate: the length of an inner step, without a line search; with one, the first length to be tried.
        max_iter: inner iterations an update, at most.
        max_eval: evaluations an update, at most; None is max_iter·5/4.
        tolerance_grad: stop where no gradient is larger.
        tolerance_change: stop where no parameter changes more, or the loss does not, or the slope along the direction
            is above −tolerance_change.
        history_size: h, the pairs remembered.
        line_search_fn: None or ``"strong_wolfe"``.
        maximize: maximize the loss. A transformation around this one cannot do so, since this one evaluates the loss.

    Raises:
        UsageError: an unknown line search; a ``history_size`` below 1; from ``update``, no ``params`` or
            ``value_and_grad_fn``.
    """
    if line_search_fn not in (None, "strong_wolfe"):
        raise UnknownChoice("line search", str(line_search_fn), ["None", "strong_wolfe"])
    if history_size < 1:
        raise UsageError(f"history_size must be at least 1, got {history_size}")
    most_evaluations = max_iter * 5 // 4 if max_eval is None else max_eval

    def init(params: Any) -> TorchLbfgsState:
        flat, _ = ravel_pytree(params)
        return empty_lbfgs_state(flat.size, history_size, flat.dtype)

    def update(
        updates: Any,
        state: TorchLbfgsState,
        params: Any = None,
        *,
        value_and_grad_fn: Callable[[Any], tuple[jax.Array, Any]] | None = None,
        **extra_args: Any,
    ) -> tuple[Any, TorchLbfgsState]:
        if params is None or value_and_grad_fn is None:
            raise UsageError(
                "L-BFGS evaluates the loss itself: update(grads, state, params, "
                "value_and_grad_fn=jax.value_and_grad(loss_function))"
            )
        start, unravel = ravel_pytree(params)
        if not start.size:
            return params, state
        scalar = state.t.dtype

        def evaluate(position: jax.Array) -> tuple[jax.Array, jax.Array]:
            loss, gradients = value_and_grad_fn(unravel(position))
            gradient = ravel_pytree(gradients)[0].astype(start.dtype)
            loss = jnp.asarray(loss, scalar)
            return (-loss, -gradient) if maximize else (loss, gradient)

        def moved(position: jax.Array, t: jax.Array, direction: jax.Array) -> jax.Array:
            position = (position + t * direction).astype(start.dtype)
            # If the parameters have several dtypes, each is rounded to its own.
            return ravel_pytree(unravel(position))[0]

        def flat(gradient: jax.Array) -> jax.Array:
            return jnp.abs(gradient).max() <= tolerance_grad

        def iterate(run: _Run) -> _Run:
            state = run.state._replace(n_iter=optax.safe_increment(run.state.n_iter))
            first = state.n_iter == 1
            state = jax.lax.cond(first, _steepest, _quasi_newton, state, run.gradient)
            shortened = jnp.minimum(1, 1 / jnp.abs(run.gradient).sum()).astype(scalar)
            t = (jnp.where(first, shortened, 1) * learning_rate).astype(scalar)
            state = state._replace(t=t, prev_flat_grad=run.gradient, prev_loss=run.loss)
            run = run._replace(state=state, iterations=run.iterations + 1)
            slope = dot(run.gradient, state.d).astype(scalar)
            # Not "slope <= …": torch continues with a NaN slope.
            return jax.lax.cond(slope > -tolerance_change, _stopped, step, run, slope)

        def step(run: _Run, slope: jax.Array) -> _Run:
            run, evaluations = (searched if line_search_fn else fixed)(run, slope)
            state = run.state
            spent = run.evaluations + evaluations
            stop = (
                (run.iterations == max_iter)
                | (spent >= most_evaluations)
                | flat(run.gradient)
                | (jnp.abs(state.d * state.t).max() <= tolerance_change)
                | (jnp.abs(run.loss - state.prev_loss) < tolerance_change)
            )
            state = state._replace(func_evals=state.func_evals + evaluations)
            return run._replace(state=state, evaluations=spent, running=~stop)

        def searched(run: _Run, slope: jax.Array) -> tuple[_Run, jax.Array]:
            state = run.state

            def along(t: jax.Array) -> tuple[jax.Array, jax.Array]:
                return evaluate(moved(run.position, t, state.d))

            point, evaluations = strong_wolfe(
                along,
                state.t,
                state.d,
                run.loss,
                run.gradient,
                slope,
                tolerance_change=tolerance_change,
                max_ls=most_evaluations - run.evaluations,
            )
            run = run._replace(
                state=state._replace(t=point.t),
                position=moved(run.position, point.t, state.d),
                loss=point.loss,
                gradient=point.gradient,
            )
            return run, evaluations

        def fixed(run: _Run, slope: jax.Array) -> tuple[_Run, jax.Array]:
            run = run._replace(position=moved(run.position, run.state.t, run.state.d))
            # After the last iteration torch does not evaluate.
            again = run.iterations != max_iter
            loss, gradient = jax.lax.cond(again, evaluate, lambda position: (run.loss, run.gradient), run.position)
            return run._replace(loss=loss, gradient=gradient), again.astype(jnp.int32)

        loss, gradient = evaluate(start)
        run = _Run(
            state=state._replace(func_evals=optax.safe_increment(state.func_evals)),
            position=start,
            loss=loss,
            gradient=gradient,
            iterations=jnp.zeros([], jnp.int32),
            evaluations=jnp.ones([], jnp.int32),
            running=~flat(gradient) & (max_iter > 0),
        )
        run = jax.lax.while_loop(lambda run: run.running, iterate, run)
        return unravel(run.position - start), run.state

    return optax.GradientTransformationExtraArgs(init, update)


def _stopped(run: _Run, slope: jax.Array) -> _Run:
    return run._replace(running=jnp.array(False))


def _steepest(state: TorchLbfgsState, gradient: jax.Array) -> TorchLbfgsState:
    """The very first direction, with an empty memory."""
    empty = empty_lbfgs_state(gradient.size, state.ro.size, gradient.dtype)
    return empty._replace(func_evals=state.func_evals, n_iter=state.n_iter, d=-gradient)


def _quasi_newton(state: TorchLbfgsState, gradient: jax.Array) -> TorchLbfgsState:
    """The memory with the last step in it, and −(approximate inverse Hessian) · gradient."""
    change = gradient - state.prev_flat_grad
    step = (state.d * state.t).astype(gradient.dtype)
    curvature = dot(change, step)
    state = jax.lax.cond(curvature > 1e-10, _remember, lambda state, *_: state, state, change, step, curvature)
    old_dirs, old_stps, ro, count = state.old_dirs, state.old_stps, state.ro, state.history_count

    def backward(index: jax.Array, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        q, al = carry
        i = count - 1 - index
        share = dot(old_stps[i], q) * ro[i]
        return q - share * old_dirs[i], al.at[i].set(share)

    def forward(i: jax.Array, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        r, al = carry
        return r + old_stps[i] * (al[i] - dot(old_dirs[i], r) * ro[i]), al

    q, al = jax.lax.fori_loop(0, count, backward, (-gradient, jnp.zeros_like(ro)))
    d, _ = jax.lax.fori_loop(0, count, forward, (q * state.H_diag, al))
    return state._replace(d=d)


def _remember(state: TorchLbfgsState, change: jax.Array, step: jax.Array, curvature: jax.Array) -> TorchLbfgsState:
    """Append the last pair; if the memory is full, drop the oldest."""
    size = state.ro.size
    full = state.history_count == size
    last = jnp.minimum(state.history_count, size - 1)

    def appended(values: jax.Array, new: jax.Array) -> jax.Array:
        return jnp.where(full, jnp.roll(values, -1, axis=0), values).at[last].set(new)

    return state._replace(
        old_dirs=appended(state.old_dirs, change),
        old_stps=appended(state.old_stps, step),
        ro=appended(state.ro, 1 / curvature),
        H_diag=curvature / dot(change, change),
        history_count=last + 1,
    )
