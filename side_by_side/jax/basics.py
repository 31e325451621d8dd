"""The first hour in JAX: twelve things that one does with arrays every day. Alone, in seconds:

    python -m side_by_side.jax.basics

Its PyTorch twin does the same twelve; read them beside each other, and run both:

    port diff basics

Each function returns its results as plain numbers and words, and main() prints them. An error is shown by its name
in place of a result: PyTorch may do otherwise there.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import grad, value_and_grad, vmap
from jax.experimental import checkify


def draw(*shape: int, seed: int = 0) -> jax.Array:
    """float64 numbers that both sides have; under x64."""
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape))


def attempt(function: Callable[..., Any], *args: Any) -> Any:
    """Return the result as plain numbers, or the name of the error that is raised."""
    try:
        return function(*args).tolist()
    except Exception as error:
        return type(error).__name__


# %% Arrays and their dtypes


def dtypes() -> dict[str, str]:
    """By default nothing has 64 bits, whatever it comes from. With x64 a float is float64 and an int int64."""
    whole, half, single = (jnp.ones(3, dtype=dtype) for dtype in (jnp.int32, jnp.bfloat16, jnp.float32))
    results = {
        "a list of floats": jnp.array([1.0, 2.0]),
        "a list of ints": jnp.array([1, 2]),
        "float64 from numpy": jnp.array(np.ones(3)),  # float32 without x64, and no warning (J7)
        "float64 asked for": jnp.ones(3, dtype=jnp.float64),  # float32 without x64, with a warning
        "int32 + 1": whole + 1,  # a Python number is weak: its kind counts, not its size
        "int32 + 1.0": whole + 1.0,  # the default float: float64 with x64 (J6)
        "bfloat16 + 1.0": half + 1.0,
        "int32 + float32": whole + single,  # numpy says float64
        "float32 + float64 ()": single + jnp.array(1.0, dtype=float),  # without axes: an array as any other
        "booleans * 2.0": (whole > 0) * 2.0,  # (G7)
        "sum of int32": whole.sum(),  # (G5)
    }
    return {name: str(result.dtype) for name, result in results.items()}


# %% Indices: writes in place, and out of bounds


def indices() -> dict[str, Any]:
    """An array never changes: a write makes a new one, under jit in place. What is not there is no error (J3)."""
    x, y, twice = jnp.arange(4.0), jnp.zeros(4), jnp.array([1, 1])
    part = x[2:]  # an array of its own
    part += 5.0  # a new array that takes the name
    x.at[0].set(9.0)  # returns the new array, and nobody takes it
    y = y.at[twice].set(y[twice] + 1.0)  # reads 0 twice, writes 1 twice
    return {
        "x": x.tolist(),
        "part of x": part.tolist(),
        "1 added at 1 and 1": y.tolist(),
        "accumulated there": jnp.zeros(4).at[twice].add(1.0).tolist(),
        "x[7]": attempt(lambda: x[7]),  # the last
        "x[-7]": attempt(lambda: x[-7]),  # the first
        "take 7": attempt(lambda: x.take(jnp.array(7))),  # NaN (W17), as x.at[7].get(mode="fill")
        "x[7] = 9": attempt(lambda: x.at[7].set(9.0)),  # dropped
        "2 from 3 on": attempt(lambda: jax.lax.dynamic_slice(x, (3,), (2,))),  # begins earlier: it has to fit
    }


# %% Broadcasting


def broadcasting() -> dict[str, Any]:
    """As in numpy: shapes are matched from the last axis on, and an axis of 1 is repeated."""
    predictions, targets = draw(3, 1), draw(3, seed=1)
    with jax.numpy_rank_promotion("raise"):  # operators take as many axes on both sides only
        checked = attempt(lambda: ((predictions - targets) ** 2).mean())
    return {
        "the loss": ((predictions[:, 0] - targets) ** 2).mean().item(),
        "wrongly": ((predictions - targets) ** 2).mean().item(),  # (3, 1) and (3,) give (3, 3): each less each
        "checked": checked,
    }


# %% Derivatives of any order


def f(x: jax.Array) -> jax.Array:
    """Seven operations, element by element."""
    return x**3 * jnp.sin(2 * x) + jnp.exp(-x)


def derivatives(at: float) -> dict[str, list[float]]:
    """The first three derivatives of f. There is no tape, and an array has no history: grad makes functions."""
    x = jnp.array(at)
    nested, derivative = [], f
    for _ in range(3):
        derivative = grad(derivative)  # a function of x
        nested.append(derivative(x).item())
    return {"nested": nested}


# %% What is traced, and what becomes of it


def compiled(function: Callable[..., Any], traced: list[Any], **options: Any) -> Callable[..., Any]:
    """jax.jit: runs the function's Python with tracers for arrays; what they stand for goes into ``traced``."""

    def noting(*args: Any) -> Any:
        traced.append([str(jax.typeof(arg)) for arg in jax.tree.leaves(args)])
        return function(*args)  # traced once for these dtypes and shapes; what is run from now on is XLA's program

    return jax.jit(noting, **options)


def programs() -> dict[str, list[str]]:
    """The operations of f: as jit notes them, and as XLA runs them: as one, which holds all the others."""
    traced = jax.make_jaxpr(f)(draw(8))
    fused, _, lowered = str(jax.jit(f).lower(draw(8)).compile().as_text()).partition("ENTRY")
    return {
        "traced": [equation.primitive.name for equation in traced.eqns],
        "run": re.findall(r"= \S+ ((?!parameter)\w+)\(", lowered),
        "fused": re.findall(r"= \S+ ((?!parameter|constant|broadcast)\w+)\(", fused),
    }


# %% When it is traced again


def traces() -> dict[str, Any]:
    """How often, by the calls: once a shape and dtype, and once a value of an argument that is static."""

    def count(function: Callable[..., Any], *calls: list[Any], **options: Any) -> int:
        traced: list[Any] = []
        run = compiled(function, traced, **options)
        for args in calls:
            run(*args)
        return len(traced)

    x, outside = draw(8), 2.0
    run = compiled(lambda: outside * jnp.ones(()), [])
    _, outside = run(), 3.0
    return {
        "one shape": count(f, [x], [x], [x]),
        "four shapes": count(f, *([draw(n)] for n in (3, 4, 5, 6))),
        "four shapes in one": count(f, *([jnp.pad(draw(n), (0, 6 - n))] for n in (3, 4, 5, 6))),  # one has to pad
        "two dtypes": count(f, [x], [x.astype(jnp.float32)]),
        "three floats": count(lambda x, factor: factor * x, [x, 1.0], [x, 2.0], [x, 3.0]),
        "an int and a float": count(lambda x, factor: factor * x, [x, 1], [x, 1.0]),
        "three lengths": count(lambda x, n: jnp.stack([x] * n), [x, 1], [x, 2], [x, 3], static_argnums=1),
        "2 outside, now 3": run().item(),  # never looked at again: 2 is in the program (J1)
    }


# %% vmap, and the gradient of each sample


def per_sample() -> dict[str, Any]:
    """vmap maps over an axis of which the function knows nothing; in_axes says which, None that all share it."""

    def loss_fn(w: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:  # of one sample: w and x (3,), y ()
        return (x @ w - y) ** 2

    w, x, y = draw(3), draw(2, 3, seed=1), draw(2, seed=2)
    gradients = vmap(grad(loss_fn), in_axes=(None, 0, 0))(w, x, y)
    looped = jnp.stack([grad(loss_fn)(w, *sample) for sample in zip(x, y, strict=True)])
    return {
        "gradients": gradients.tolist(),
        "the same in a loop": jnp.allclose(gradients, looped).item(),
        "their mean": gradients.mean(0).tolist(),  # the gradient of the mean
    }


# %% Random numbers


def random_numbers() -> dict[str, bool]:
    """A key has no state, and no draw changes it: what was drawn before decides nothing (W25). Use each key once."""
    key = jax.random.key(0)
    first, second = jax.random.normal(key, (3,)), jax.random.normal(key, (3,))
    steps = jax.random.split(key, 3)  # new keys, for draws or to be split again
    third = jax.random.normal(steps[2], (3,))
    resumed = jax.random.normal(jax.random.fold_in(jax.random.key(0), 2), (3,))  # by the step's number alone
    jax.random.uniform(key, (1,))
    return {
        "drawn again": first.tolist() == second.tolist(),
        "drawn after another": second.tolist() == jax.random.normal(key, (3,)).tolist(),
        "drawn in a resumed run": third.tolist() == resumed.tolist(),  # split and fold_in make the same keys (J5)
    }


# %% Trees of arrays, and state dicts


def trees() -> dict[str, Any]:
    """A state is a tree, and its names are paths. So is every nest of dicts, lists and tuples."""
    rngs = nnx.Rngs(0)  # a stream: it counts how many keys it has given, as a Generator would (W25)
    model: Any = nnx.Sequential(nnx.Linear(3, 2, rngs=rngs), jnp.tanh, nnx.Linear(2, 1, rngs=rngs))
    state: Any = nnx.state(model)  # the model's own variables: nnx.to_pure_dict keeps their values
    model.layers[0].kernel[...] = jnp.full((3, 2), 5.0)

    def load(kernel: jax.Array) -> jax.Array:
        nnx.update(model, {"layers": {0: {"kernel": kernel}}})
        return jnp.array(model.layers[0].kernel.shape)

    tree = {"b": [1.0, None], "a": (2.0,)}
    leaves = jax.tree.leaves_with_path(tree)
    return {
        "shapes": {".".join(map(str, path)): list(leaf.shape) for path, leaf in nnx.to_flat_state(state)},  # (W1)
        "the state after an update": state["layers"][0]["kernel"].mean().item(),
        "leaves": {jax.tree_util.keystr(path): leaf for path, leaf in leaves},  # by sorted keys; None is none
        "mapped": jax.tree.map(lambda leaf: -leaf, tree),
        "another shape": attempt(load, draw(9, 9)),  # taken (J4)
    }


# %% Control flow


def root(x: jax.Array) -> jax.Array:
    """√x by Newton's method, six rounds: in a program they are one, run six times (A2)."""
    return jax.lax.fori_loop(0, 6, lambda _, y: (y + x / y) / 2, x)


def moving_average(x: jax.Array) -> jax.Array:
    """(N,) → (N,): each number moves the average a tenth of the way (A3)."""

    def move(average: jax.Array, number: jax.Array) -> tuple[jax.Array, jax.Array]:
        average = average + 0.1 * (number - average)
        return average, average  # for the next round, and to be stacked

    return jax.lax.scan(move, jnp.zeros((), dtype=x.dtype), x)[1]


def control_flow() -> dict[str, Any]:
    """Python's own while tracing: an `if` on a value is an error under jit, a `for` is written out (A1)."""
    two, zero = jnp.array([2.0, 0.0])
    return {
        "if, compiled": attempt(compiled(lambda x: x if x > 0 else -x, []), -two),
        "if, in one graph": attempt(compiled(lambda x: jax.lax.cond(x > 0, lambda x: x, lambda x: -x, x), []), -two),
        "sqrt(2) and its gradient": [root(two).item(), grad(root)(two).item()],
        "moving average": moving_average(draw(4)).tolist(),
        # Both sides of a where are computed, and at 0 the gradient of the one that is not taken is 0 · ∞.
        "where": grad(lambda x: jnp.where(x > 0, jnp.sqrt(x), 0.0))(zero).item(),
        "where, safe inside": grad(lambda x: jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1.0)), 0.0))(zero).item(),
    }


# %% State that is not trained


class Centred(nnx.Module):
    """x · weight, less a running mean of what came out so far: state that no gradient trains."""

    def __init__(self) -> None:
        self.weight = nnx.Param(draw(3))
        self.mean = nnx.BatchStat(jnp.zeros(()))

    def __call__(self, x: jax.Array) -> jax.Array:
        y = x @ self.weight[...]
        self.mean[...] = 0.9 * self.mean[...] + 0.1 * jax.lax.stop_gradient(y).mean()
        return y - self.mean[...]


def stateful() -> dict[str, Any]:
    """Three updates, of functions: the model is split, and merged again from parameters and statistics."""
    model, x = Centred(), draw(4, 3, seed=1)
    graphdef, params, stats = nnx.split(model, nnx.Param, nnx.BatchStat)  # type: ignore[misc]

    def loss_fn(params: nnx.State, stats: nnx.State) -> tuple[jax.Array, nnx.State]:
        merged = nnx.merge(graphdef, params, stats, copy=True)  # the call writes to the copy
        loss = (merged(x) ** 2).mean()
        return loss, nnx.state(merged, nnx.BatchStat)  # which is no part of the loss: has_aux

    losses = []
    for _ in range(3):
        (loss, stats), gradients = value_and_grad(loss_fn, has_aux=True)(params, stats)
        params = jax.tree.map(lambda param, gradient: param - 0.1 * gradient, params, gradients)
        losses.append(loss.item())
    shown = {"losses": losses, "weight": params["weight"].tolist(), "mean": stats["mean"].item()}
    shown |= {"the model's own mean": model.mean.item()}
    compiled(Centred.__call__, [])(model, x)  # of a copy, which jit drops (J2); nnx.jit keeps it
    return shown | {"after a compiled call": model.mean.item()}


# %% Prints and NaNs


def debugging() -> dict[str, Any]:
    """print is for the trace, jax.debug.print for the calls. NaNs are looked for, forward too, if it is asked for."""
    run, output = compiled(lambda x: (print("print", x), jax.debug.print("debug.print {}", x)), []), io.StringIO()
    with redirect_stdout(output):
        _ = run(jnp.array(1.0)), run(jnp.array(2.0))
        jax.effects_barrier()
    x = jnp.array(-1.0)
    shown = {"printed": output.getvalue().splitlines(), "sqrt(-1)": attempt(jnp.sqrt, x)}
    # What it prints, not to be hidden by others, says that it runs a compiled function again, an operation at a time.
    with redirect_stdout(io.StringIO()), jax.debug_nans(True):
        shown |= {"sqrt(-1), watched": attempt(jnp.sqrt, x), "its gradient, watched": attempt(grad(jnp.sqrt), x)}
    error, _ = checkify.checkify(jax.jit(jnp.sqrt), errors=checkify.float_checks)(x)
    return shown | {"sqrt(-1), checked": error.get()}  # as a value, under jit too


# %% The tour


def show(title: str, results: dict[str, Any]) -> None:
    """A title, and a line a result."""
    print(f"# {title}", *(f"    {name + ':':28}{result}" for name, result in results.items()), sep="\n")


def main() -> None:
    """Cell by cell."""
    with warnings.catch_warnings(action="ignore"):  # without x64: of the float64 that is asked for
        show("Arrays and their dtypes", dtypes())
    jax.config.update("jax_enable_x64", True)
    show("Arrays and their dtypes, with x64", dtypes())
    show("Indices: writes in place, and out of bounds", indices())
    show("Broadcasting", broadcasting())
    show("Derivatives of any order", derivatives(0.7))
    show("What is traced, and what becomes of it", programs())
    show("When it is traced again", traces())
    show("vmap, and the gradient of each sample", per_sample())
    show("Random numbers", random_numbers())
    show("Trees of arrays, and state dicts", trees())
    show("Control flow", control_flow())
    show("State that is not trained", stateful())
    show("Prints and NaNs", debugging())


if __name__ == "__main__":
    main()
