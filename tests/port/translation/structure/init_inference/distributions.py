"""Compare many new models on both sides: tables number by number, random tensors by their distributions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import torch
from flax import nnx
from scipy.stats import ks_2samp
from torch import nn

from port.mapping import TORCH_ONLY
from port.translation import Translation

TIMES = 200
_MOST = 300  # number of elements compared per tensor
_LIKELY = 1e-7  # by chance, a right translation fails less than once in many thousand parameters


def of_torch(construct: Callable[[], nn.Module], times: int = TIMES) -> dict[str, np.ndarray]:
    """The values of many constructions, by torch's names: (times, elements)."""
    found: dict[str, list[np.ndarray]] = {}
    with torch.random.fork_rng():
        for seed in range(times):
            torch.manual_seed(1000 + seed)
            module = construct()
            for name, tensor in (*module.named_parameters(), *module.named_buffers()):
                found.setdefault(name, []).append(_some(tensor.detach().numpy()))
    return {name: np.stack(arrays) for name, arrays in found.items()}


def of_flax(translation: Translation, times: int = TIMES, source: str | None = None) -> dict[str, np.ndarray]:
    """The same of the written module, by torch's names, elements in torch's order.

    Args:
        translation: whose module.
        times: how many are made.
        source: in the place of its own.
    """
    if source is not None:
        translation = replace(translation, source=source)
    cls = vars(translation.code)[translation.name]

    def values(key: Any) -> Any:
        state = nnx.state(cls(rngs=nnx.Rngs(params=key, default=key)), nnx.Not(nnx.RngState))
        return {".".join(map(str, path)): variable[...] for path, variable in nnx.to_flat_state(state)}

    made = jax.jit(jax.vmap(values))(jax.random.split(jax.random.key(7), times))
    found: dict[str, np.ndarray] = {}
    for entry in translation.mapping.entries:
        if entry.collection != TORCH_ONLY:
            for name, arrays in _back(entry, made, times).items():
                found[name] = arrays
    for path in translation.hidden:
        found[path] = np.stack([_some(np.asarray(array)) for array in made[path]])
    return found


def _back(entry: Any, made: dict[str, Any], times: int) -> dict[str, np.ndarray]:
    back = entry.inverse()
    several = [back(tuple(np.asarray(made[target][n]) for target in entry.targets)) for n in range(times)]
    return {name: np.stack([_some(arrays[place]) for arrays in several]) for place, name in enumerate(entry.sources)}


def _some(array: np.ndarray) -> np.ndarray:
    flat = np.asarray(array, np.float64).ravel()
    return flat if flat.size <= _MOST else flat[np.random.default_rng(0).choice(flat.size, _MOST, replace=False)]


def differences(construct: Callable[[], nn.Module], ours: dict[str, np.ndarray]) -> list[str]:
    """Names of the tensors that start differently: in what is fixed, in what is drawn, or in its spread."""
    found = []
    for name, a in of_torch(construct, len(next(iter(ours.values())))).items():
        b = ours.get(name)
        if b is None:
            continue
        still = (a == a[0]).all(0)
        if not np.array_equal(still, (b == b[0]).all(0)) or not np.allclose(a[0][still], b[0][still], rtol=1e-6):
            found.append(f"{name}: constant elsewhere, or of other numbers")
        elif (~still).any() and not all(_of_one_kind(x, y) for x, y in _measures(a[:, ~still], b[:, ~still])):
            found.append(f"{name}: drawn otherwise")
    return found


def _measures(a: np.ndarray, b: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """All numbers; and, as those of an orthogonal matrix depend on one another, the length of each tensor."""
    yield a.ravel(), b.ravel()
    yield np.linalg.norm(a, axis=1).round(4), np.linalg.norm(b, axis=1).round(4)


def _of_one_kind(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(ks_2samp(a, b).pvalue >= _LIKELY)


def assert_alike(translation: Translation, construct: Callable[[], nn.Module], times: int = TIMES) -> None:
    """Every parameter and buffer of a new module starts as the original's."""
    assert not translation.without_start
    assert not differences(construct, of_flax(translation, times))


def planted(source: str, pattern: str, instead: str) -> str:
    """A source with a fault."""
    changed, count = re.subn(pattern, instead, source, count=1)
    assert count, pattern
    return changed
