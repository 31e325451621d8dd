"""Both sides of an operator's pair on the same values, and torch's own samples as such values."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from port.pairs.ops import GIVEN, OperatorPair

# Where the database gives the arguments in another order than torch takes them.
REORDERED = {
    "torch.where": (1, 0, 2),
    "torch.polygamma": (1, 0),
    "torch.einsum": (1, 0),
    "torch.nn.functional.embedding": (1, 0),
}

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
def samples() -> Callable[..., Iterator[tuple[bool, Values]]]:
    """The variables of a pair from torch's own samples, and whether torch differentiates the operator."""
    with pytest.MonkeyPatch.context() as patch:
        # Importing the database freezes torch's backend flags.
        patch.setattr(torch.backends, "disable_global_flags", lambda: None)
        from torch.testing._internal.common_methods_invocations import op_db
    infos: dict[str, list[Any]] = {}
    for info in op_db:
        infos.setdefault(info.name, []).append(info)

    def of(pair: OperatorPair, dtype: torch.dtype = torch.float64) -> Iterator[tuple[bool, Values]]:
        name = pair.torch.removeprefix("torch.").removeprefix("Tensor.")
        for info in infos.get(name) or infos.get(name.removeprefix("nn.functional."), []):
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
                        values = _variables(pair, [positional[i] for i in order], named)
                        if values is not None and fits(pair, values):
                            yield differentiable, values

    return of


def _variables(pair: OperatorPair, positional: list[Any], named: Values) -> Values | None:
    """What the variables of ``pair.says`` are in a call with these arguments; None if it has other ones."""
    said: Any = ast.parse(pair.says, mode="eval").body
    method = pair.torch.startswith("torch.Tensor.")
    call = isinstance(said, ast.Call)
    places = [("", said.func.value if call else said.value)] if method else []
    if call:
        places += [("", argument) for argument in said.args]
        places += [(keyword.arg, keyword.value) for keyword in said.keywords]
    values: Values = {}
    for name, place in places:
        if isinstance(place, ast.Starred):
            assert isinstance(place.value, ast.Name)
            first = positional.pop(0) if positional else ()
            values[place.value.id] = (*(first if isinstance(first, list | tuple) else (first,)), *positional)
            positional = []
            continue
        variable = place.id if isinstance(place, ast.Name) else ""
        if positional:
            value = positional.pop(0)
        elif (name or variable) in named:
            value = named.pop(name or variable)
        elif variable in pair.left_out:
            value = pair.left_out[variable]
        else:
            return None
        if isinstance(place, ast.Constant):
            if value != place.value:
                return None
        else:
            values[variable] = value
    return None if positional or named else values


def in_jax(value: Any) -> Any:
    """A value of torch's as `OperatorPair` has it: arrays, and tuples."""
    if isinstance(value, torch.Tensor):
        return jnp.asarray(value.detach().resolve_conj().resolve_neg().numpy())
    if isinstance(value, list | tuple):
        return tuple(map(in_jax, value))
    return value


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


def _is_float(x: Any) -> bool:
    return hasattr(x, "dtype") and str(x.dtype).removeprefix("torch.") in ("float64", "float32", "float16", "bfloat16")


def _cotangent(shape: Any) -> np.ndarray:
    return np.random.default_rng(99).normal(0.3, 1, tuple(shape))


def in_torch(pair: OperatorPair, values: Values, differentiable: bool) -> tuple[list[Any], list[Any]]:
    """What torch gives, and the gradient of each tensor of floats."""

    def leaf(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.detach().clone().requires_grad_(differentiable and value.dtype == torch.float64)
        return type(value)(map(leaf, value)) if isinstance(value, list | tuple) else value

    # torch's own sizes cannot be made of a map.
    values = {name: leaf(tuple(value) if isinstance(value, torch.Size) else value) for name, value in values.items()}
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


def of_jax(jax_source: str, values: Values, differentiable: bool) -> tuple[list[Any], list[Any]]:
    """The same of a JAX expression."""
    given = {name: in_jax(value) for name, value in values.items()}
    # A dict's leaves would come in the order of its keys.
    leaves, tree = jax.tree.flatten(list(given.values()))
    places = [i for i, x in enumerate(leaves) if differentiable and isinstance(x, jax.Array) and x.dtype == jnp.float64]

    def run(*floats: jax.Array) -> tuple[list[jax.Array], list[Any]]:
        filled = list(leaves)
        for i, x in zip(places, floats, strict=True):
            filled[i] = x
        results = _leaves(
            evaluated(jax_source, _given, dict(zip(given, jax.tree.unflatten(tree, filled), strict=True)))
        )
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
    got, ours = of_jax(jax_source or pair.jax, values, differentiable)
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
