"""A ring of keys: what it returns, and at which positions, against a list of all tokens; and the torch twin."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from port.nn import TokenCache
from port.nn.token_cache import window_positions
from port.translation.frontend.token_cache import TorchTokenCache

SIZE, ROOM = 4, 32


def tokens(count: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(2, 3, count, 5))


def read(counts: tuple[int, ...], size: int = SIZE) -> list[tuple[np.ndarray, np.ndarray]]:
    """Read tokens in calls of some lengths: of each call, the keys and their positions."""
    text, position, held, found = tokens(sum(counts)), 0, None, []
    for count in counts:
        cache = TokenCache(size)
        cache.hold(held)
        positions = window_positions(position, count, size, is_empty=held is None)
        keys = cache(jnp.asarray(text[..., position : position + count, :]), position, jnp.arange(ROOM), positions)
        found.append((np.asarray(keys), np.asarray(positions)))
        held, position = cache.held, position + count
    return found


def shown(counts: tuple[int, ...], found: list[tuple[np.ndarray, np.ndarray]]) -> list[str]:
    """What is wrong in what a layer with the window sees; nothing where all is right."""
    text, position, faults = tokens(sum(counts)), 0, []
    for count, (keys, positions) in zip(counts, found, strict=True):
        for query in range(position, position + count):
            seen = np.flatnonzero((positions <= query) & (positions > query - SIZE))
            expected = range(max(0, query - SIZE + 1), query + 1)
            if sorted(positions[seen]) != list(expected):
                faults.append(f"token {query} sees positions {sorted(positions[seen])}")
            elif not np.array_equal(keys[..., seen, :], text[..., positions[seen], :]):
                faults.append(f"token {query} sees the keys of other positions")
        position += count
    return faults


CALLS = [(1,) * 11, (3, *(1,) * 9), (4, 1, 1), (9, 1, 1, 1), (2, 3, 1, 6, 1, 1), (1, 2, 2, 4, 1)]


@pytest.mark.parametrize("counts", CALLS, ids=str)
def test_each_token_sees_its_window(counts: tuple[int, ...], float64: None) -> None:
    assert not shown(counts, read(counts))


@pytest.mark.parametrize("fault", ["smaller", "rotated", "early"])
def test_a_fault_is_seen(fault: str, float64: None) -> None:
    counts = (3, *(1,) * 9)
    found = read(counts, SIZE - 1 if fault == "smaller" else SIZE)
    if fault == "rotated":
        found = [(np.roll(keys, 1, axis=-2), positions) for keys, positions in found]
    if fault == "early":
        found = [(keys, positions - 1) for keys, positions in found]
    assert shown(counts, found)


def test_padding_is_not_kept(float64: None) -> None:
    cache = TokenCache(SIZE)
    cache.hold(count=jnp.asarray(5))
    text = tokens(9)
    cache(jnp.asarray(text), 0, jnp.arange(ROOM), window_positions(0, 9, SIZE, is_empty=True))
    np.testing.assert_array_equal(cache.held, text[..., [4, 1, 2, 3], :])


@pytest.mark.parametrize("window", [SIZE, None])
def test_the_torch_twin_returns_the_same(window: int | None, float64: None) -> None:
    text, positions = tokens(6), np.asarray([7, 3, -1, 4, 9, 8, 2])
    theirs = TorchTokenCache(window)(torch.tensor(text), torch.tensor(3), torch.arange(ROOM), torch.tensor(positions))
    ours = TokenCache(window)(jnp.asarray(text), 3, jnp.arange(ROOM), jnp.asarray(positions))
    np.testing.assert_array_equal(ours, theirs.numpy())
    assert np.abs(theirs.numpy()).max() > 0
