"""What draws random numbers: both sides draw from the same distribution, which many numbers show."""

from __future__ import annotations

import ast
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from port.pairs.ops import GIVEN, OPERATORS, OperatorPair
from port.pairs.ops.draws import Dropout, Key

pytestmark = pytest.mark.filterwarnings("ignore")

MANY = 40_000
LIKE = torch.zeros(MANY, dtype=torch.float64)
KEYED = [pair for pair in OPERATORS if isinstance(pair.draws, Key)]
ARGUMENTS: dict[str, Any] = {"size": (MANY,), "dtype": torch.float64, "p": 0.3, "lambd": 1.7}
OWN: dict[str, dict[str, Any]] = {
    "torch.randint": {"low": 3, "high": 9, "dtype": torch.int64},
    "torch.randint_like": {"low": 3, "high": 9, "dtype": torch.int64},
    "torch.ops.aten.uniform": {"low": -0.5, "high": 2.0},
    "torch.ops.aten.normal_functional": {"mean": 0.7, "std": 1.3},
    "torch.bernoulli": {"input": torch.full((MANY,), 0.8, dtype=torch.float64)},
}
NORMAL = (
    {"mean": LIKE + 0.7, "std": LIKE + 1.3},
    {"mean": 0.7, "std": LIKE + 1.3},
    {"mean": LIKE[None] + 0.7, "std": LIKE[:1] + 1.3},
)
given: dict[str, Any] = {}
exec(GIVEN, given)


def variables(pair: OperatorPair) -> dict[str, Any]:
    """Arguments of an operator that draw many numbers."""
    names = {node.id for node in ast.walk(ast.parse(pair.says)) if isinstance(node, ast.Name)} - {"torch"}
    known = {"input": LIKE, "mean": 0.7, "std": 1.3, **ARGUMENTS, **OWN.get(pair.torch, {})}
    if pair.torch == "torch.normal" and "size" not in names:
        same = [pair for pair in KEYED if pair.torch == "torch.normal" and "size" not in pair.says]
        known |= NORMAL[same.index(pair)]
    return {name: known[name] for name in names}


def in_jax(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return jnp.asarray(value.numpy())
    return jnp.dtype(str(value).removeprefix("torch.")) if isinstance(value, torch.dtype) else value


def both(pair: OperatorPair, jax_source: str = "") -> tuple[np.ndarray, np.ndarray]:
    """What torch draws, and what JAX does."""
    values = variables(pair)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        theirs = eval(pair.says, {"torch": torch}, values)
    ours = {name: in_jax(value) for name, value in values.items()} | {"key": jax.random.key(1)}
    return np.asarray(eval(jax_source or pair.jax, given, ours)), theirs.numpy()


def unlike(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest distance of two sets of numbers' distributions (Kolmogorov and Smirnov), over its standard scale."""
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    one, other = np.sort(ours.ravel()), np.sort(theirs.ravel())
    every = np.concatenate([one, other])
    shares = [np.searchsorted(each, every, side="right") / each.size for each in (one, other)]
    return float(np.abs(shares[0] - shares[1]).max() * np.sqrt(one.size / 2))


@pytest.mark.parametrize("pair", KEYED, ids=lambda pair: pair.says.removeprefix("torch."))
def test_both_sides_draw_alike(pair: OperatorPair) -> None:
    assert unlike(*both(pair)) < 2.2  # once in 10 000 more


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("torch.ops.aten.exponential", "jax.random.exponential(key, input.shape, input.dtype) * lambd"),
        ("torch.ops.aten.uniform", "jax.random.uniform(key, input.shape, input.dtype, high, low)"),
        ("torch.ops.aten.normal_functional", "mean + std**2 * jax.random.normal(key, input.shape, input.dtype)"),
        ("torch.randint_like", "jax.random.randint(key, input.shape, low, high + 1, dtype)"),
        ("torch.bernoulli", "1 - jax.random.bernoulli(key, p, input.shape).astype(input.dtype)"),
    ],
)
def test_another_distribution_is_seen(name: str, fault: str) -> None:
    pair = next(pair for pair in KEYED if pair.torch == name and ("dtype=" in pair.says) == name.endswith("_like"))
    assert unlike(*both(pair, fault)) > 5


def test_what_drops_is_a_function_of_one_array() -> None:
    """With nothing dropped, the expression is that of the pair which drops nothing; the rate is a variable."""
    dropping = [pair for pair in OPERATORS if isinstance(pair.draws, Dropout)]
    assert {pair.torch for pair in dropping} == {"torch.dropout", "torch.nn.functional.scaled_dot_product_attention"}
    for pair in dropping:
        assert isinstance(pair.draws, Dropout) and pair.draws.rate in pair.says
        arrays = {name: jnp.asarray(np.random.default_rng(k).normal(size=(2, 3, 4))) for k, name in enumerate("qkv")}
        values = {"query": arrays["q"], "key": arrays["k"], "value": arrays["v"], "input": arrays["q"]}
        values |= {"attn_mask": None, "is_causal": False, "scale": None, "enable_gqa": False}
        plain = next(other for other in OPERATORS if (other.says, other.draws) == (pair.says, None))
        made = [eval(each.jax, given, {**values, "dropout": lambda weights: weights}) for each in (pair, plain)]
        assert np.allclose(*made, rtol=1e-6)
        halved = eval(pair.jax, given, {**values, "dropout": lambda weights: weights / 2})
        assert not np.allclose(made[0], halved)
