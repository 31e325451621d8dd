"""Both sides of an operator's pair on the same values, and torch's own samples as such values."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from operator_calls import REORDERED, variables_of
from port.pairs.ops import GIVEN, OperatorPair

Values = dict[str, Any]

_given: Values = {}
exec(GIVEN, _given)


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    """Both sides' default float; and nothing is optimised: these tests compile far more than they compute."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    torch.set_default_dtype(torch.float64)
    with jax.enable_x64(True):
        yield
    torch.set_default_dtype(torch.float32)
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture(scope="session")
def database() -> dict[str, list[Any]]:
    """torch's own operators by their names; one name may have several variants."""
    with pytest.MonkeyPatch.context() as patch:
        # Importing the database freezes torch's backend flags.
        patch.setattr(torch.backends, "disable_global_flags", lambda: None)
        from torch.testing._internal.common_methods_invocations import op_db
    infos: dict[str, list[Any]] = {}
    for info in op_db:
        infos.setdefault(info.name, []).append(info)
    return infos


@pytest.fixture(scope="session")
def samples(database: dict[str, list[Any]]) -> Callable[..., Iterator[tuple[bool, Values]]]:
    """The variables of a pair from torch's own samples, and whether torch differentiates the operator."""

    def of(pair: OperatorPair, dtype: torch.dtype = torch.float64) -> Iterator[tuple[bool, Values]]:
        for info in variants(database, pair):
            if dtype in info.dtypes:
                with torch.random.fork_rng():
                    torch.manual_seed(0)
                    differentiable = info.supports_autograd and dtype.is_floating_point
                    for sample in info.sample_inputs("cpu", dtype, requires_grad=differentiable):
                        positional = [sample.input, *sample.args]
                        order = REORDERED.get(pair.torch, range(len(positional)))
                        # Where torch's samples are made they say the dtype that would be taken anyway.
                        named = {
                            name: value
                            for name, value in sample.kwargs.items()
                            if name not in ("device", "layout") and not (name == "dtype" and value == dtype)
                        }
                        values = variables_of(pair, [positional[i] for i in order], named)
                        if values is not None and fits(pair, values):
                            yield differentiable, values

    return of


def variants(database: dict[str, list[Any]], pair: OperatorPair) -> list[Any]:
    """What torch's database has of a pair's operator."""
    name = pair.torch.removeprefix("torch.").removeprefix("Tensor.")
    return database.get(name) or database.get(name.removeprefix("nn.functional."), [])


def in_jax(value: Any) -> Any:
    """A value of torch's as `OperatorPair` has it: arrays, and tuples."""
    if isinstance(value, torch.Tensor):
        return jnp.asarray(value.detach().resolve_conj().resolve_neg().numpy())
    if isinstance(value, list | tuple):
        return tuple(map(in_jax, value))
    return jnp.dtype(str(value).removeprefix("torch.")) if isinstance(value, torch.dtype) else value


def evaluated(source: str, names: Values, values: Values) -> Any:
    return eval(source, {**names, **values})


def fits(pair: OperatorPair, values: Values) -> bool:
    """Whether the pair speaks of these."""
    axes = [value for name, value in values.items() if re.fullmatch(r"(start_|end_)?dims?[01]?|dimension", name)]
    first = next((value for value in values.values() if isinstance(value, torch.Tensor)), None)
    without_axes = first is not None and first.ndim == 0 and any(axis is not None for axis in axes)
    return not without_axes and () not in axes and [] not in axes and _holds(pair.only_if or "True", values)


def _holds(condition: str, values: Values) -> bool:
    return bool(evaluated(condition, _given, {name: in_jax(value) for name, value in values.items()}))


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return [leaf for part in value for leaf in _leaves(part)]
    return [value]


_FLOATS = ("float64", "float32", "float16", "bfloat16", "complex64", "complex128")
# What torch does not differentiate by.
_CONSTANT = {
    "torch.nn.functional.batch_norm": ("running_mean", "running_var"),
    "torch.ops.aten.copy": ("input", "src"),
    "torch.nn.functional.soft_margin_loss": ("target",),
    "torch.special.zeta": ("input",),
}


def _is_float(x: Any) -> bool:
    return hasattr(x, "dtype") and str(x.dtype).removeprefix("torch.") in _FLOATS


def _cotangent(shape: Any) -> np.ndarray:
    return np.random.default_rng(99).normal(0.3, 1, tuple(shape))


def in_torch(pair: OperatorPair, values: Values, differentiable: bool) -> tuple[list[Any], list[Any]]:
    """What torch gives, and the gradient of each tensor of floats."""

    def leaf(value: Any, constant: bool) -> Any:
        if isinstance(value, torch.Tensor):
            by_it = differentiable and not constant and value.dtype == torch.float64
            return value.detach().clone().requires_grad_(by_it)
        # torch's own sizes cannot be made of others.
        kind = list if isinstance(value, list) else tuple
        return kind(leaf(x, constant) for x in value) if isinstance(value, list | tuple) else value

    values = {name: leaf(value, name in _CONSTANT.get(pair.torch, ())) for name, value in values.items()}
    results = _leaves(evaluated(pair.says, {"torch": torch}, values))
    wanted = [x for x in _leaves(list(values.values())) if isinstance(x, torch.Tensor) and x.requires_grad]
    ends = [x for x in results if isinstance(x, torch.Tensor) and x.requires_grad]
    if not wanted or not ends:
        return [_plain(x) for x in results], [np.zeros(x.shape) for x in wanted]
    gradients = torch.autograd.grad(
        ends, wanted, [torch.from_numpy(_cotangent(x.shape)).to(x.dtype) for x in ends], allow_unused=True
    )
    zeros = [torch.zeros_like(x) if g is None else g for x, g in zip(wanted, gradients, strict=True)]
    return [_plain(x) for x in results], [g.numpy(force=True) for g in zeros]


def _plain(x: Any) -> np.ndarray:
    if isinstance(x, torch.Tensor):
        x = x.detach().resolve_conj().resolve_neg()
        return x.float().numpy() if x.dtype == torch.bfloat16 else x.numpy(force=True)
    return np.asarray(x)


def of_jax(
    jax_source: str, values: Values, differentiable: bool, constant: tuple[str, ...] = ()
) -> tuple[list[Any], list[Any]]:
    """The same of a JAX expression."""
    given = {name: in_jax(value) for name, value in values.items() if name not in constant}
    names = {**_given, **{name: in_jax(values[name]) for name in constant}}
    # A dict's leaves would come in the order of its keys.
    leaves, tree = jax.tree.flatten(list(given.values()))
    places = [i for i, x in enumerate(leaves) if differentiable and isinstance(x, jax.Array) and x.dtype == jnp.float64]

    def run(*floats: jax.Array) -> tuple[list[jax.Array], list[Any]]:
        filled = list(leaves)
        for i, x in zip(places, floats, strict=True):
            filled[i] = x
        results = _leaves(evaluated(jax_source, names, dict(zip(given, jax.tree.unflatten(tree, filled), strict=True))))
        return [x for x in results if _is_float(x)], results

    def both(*floats: jax.Array) -> tuple[list[Any], tuple[Any, ...]]:
        _, pull_back, results = jax.vjp(run, *floats, has_aux=True)
        ends = [x for x in results if _is_float(x)]
        return results, pull_back([jnp.asarray(_cotangent(x.shape), x.dtype) for x in ends])

    floats = [leaves[i] for i in places]
    try:
        results, gradients = jax.jit(both)(*floats)
    except jax.errors.JAXTypeError:  # the shape of what it gives depends on values
        results, gradients = both(*floats)
    return [_plain_jax(x) for x in results], [np.asarray(g) for g in gradients]


def _plain_jax(x: Any) -> np.ndarray:
    x = np.asarray(x)
    return x.astype(np.float32) if x.dtype == jnp.bfloat16 else x


def difference(got: list[np.ndarray], expected: list[np.ndarray]) -> float:
    """Relative to the largest expected value, the largest; infinite where shapes, dtypes, NaNs or infinities are not
    the same."""
    if [(x.shape, x.dtype) for x in got] != [(x.shape, x.dtype) for x in expected]:
        return math.inf
    seen = [0.0]
    for ours, theirs in zip(got, expected, strict=True):
        if ours.dtype == bool or np.issubdtype(ours.dtype, np.integer):
            seen.append(0.0 if np.array_equal(ours, theirs) else math.inf)
            continue
        finite = np.isfinite(theirs)
        if not np.array_equal(ours[~finite], theirs[~finite], equal_nan=True) or not np.isfinite(ours[finite]).all():
            return math.inf
        largest = np.abs(theirs[finite]).max(initial=0) or 1
        seen.append(float(np.abs(ours[finite] - theirs[finite]).max(initial=0) / largest))
    return max(seen)


def check(
    pair: OperatorPair,
    values: Values,
    differentiable: bool = True,
    *,
    jax_source: str = "",
    everywhere: bool = False,
) -> tuple[float, float]:
    """How far the values are apart, and the gradients: where the pair says that they are torch's, or everywhere."""
    expected, gradients = in_torch(pair, values, differentiable)
    got, ours = of_jax(jax_source or pair.jax, values, differentiable, _CONSTANT.get(pair.torch, ()))
    apart = difference(got, expected)
    if not everywhere and pair.other_gradient and differentiable and _holds(pair.other_gradient, values):
        return apart, 0.0
    return apart, difference(ours, gradients)


@pytest.fixture(scope="session")
def complete() -> Callable[[OperatorPair, Values], Values | None]:
    """All variables of a pair from some by their names; None if they are others, or not enough."""

    def of(pair: OperatorPair, values: Values) -> Values | None:
        names = [node.id for node in ast.walk(ast.parse(pair.says)) if isinstance(node, ast.Name)]
        every = {**pair.left_out, **values}
        return every if set(every) == set(names) - {"torch"} else None

    return of


@pytest.fixture(name="fits", scope="session")
def _fits() -> Callable[[OperatorPair, Values], bool]:
    return fits


@pytest.fixture(name="check", scope="session")
def _check() -> Callable[..., tuple[float, float]]:
    return check


@pytest.fixture(scope="session")
def gives_floats() -> Callable[[OperatorPair, Values], bool]:
    """Whether torch does."""
    return lambda pair, values: any(np.issubdtype(x.dtype, np.floating) for x in in_torch(pair, values, False)[0])


@pytest.fixture(scope="session")
def compared() -> Callable[..., tuple[float, float]]:
    return partial(check, everywhere=True)


@pytest.fixture(scope="session")
def sides() -> SimpleNamespace:
    """What the tests of axes and of nodes need of the above."""
    return SimpleNamespace(in_torch=in_torch, in_jax=in_jax, difference=difference)


@pytest.fixture(name="variants", scope="session")
def _variants(database: dict[str, list[Any]]) -> Callable[[OperatorPair], list[Any]]:
    return partial(variants, database)
