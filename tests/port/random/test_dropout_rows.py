"""shared_dropout for replicas and microbatches: together they drop what one device with the whole batch drops."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from port import random
from port.errors import UsageError
from port.random import shared_dropout
from port.random.draws import bernoulli_rows

SEED, STEP, RATE = 3, 5, 0.4
WHOLE = 12
SPLITS = {  # a line for each replica
    "interleaved": torch.arange(WHOLE).reshape(3, 4).T,
    "contiguous": torch.arange(WHOLE).reshape(4, 3),
    "padded by repeating": torch.from_numpy(np.resize(np.arange(WHOLE), (5, 3))),
    "a microbatch of one": torch.arange(WHOLE).reshape(WHOLE, 1),
}
KINDS: list[tuple[type[nn.Module], tuple[int, ...], bool]] = [
    (nn.Dropout, (7,), False),
    (nn.Dropout, (3, 4, 5), False),
    (nn.Dropout, (3, 4, 5), True),
    (nn.Dropout1d, (9, 4), False),
    (nn.Dropout2d, (9, 4, 3), False),
    (nn.Dropout2d, (9, 4, 3), True),
    (nn.Dropout3d, (9, 2, 3, 2), False),
]


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """No zeros: what is 0 afterwards was dropped."""
    return torch.tensor(1 + np.random.default_rng(0).random(shape), dtype=dtype)


def drop(module: nn.Module, x: Tensor, times: int = 1, step: int = STEP, **options: Any) -> list[Tensor]:
    """What the module makes of ``x``, call after call within one context."""
    with shared_dropout(module, random.dropout_key(SEED, step), **options):
        return [module(x) for _ in range(times)]


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("kind", "shape", "channels_last"), KINDS)
@pytest.mark.thin(4)
def test_all_parts_together_drop_what_the_whole_drops(
    kind: type[nn.Module], shape: tuple[int, ...], channels_last: bool, dtype: torch.dtype, split: str
) -> None:
    x, module = numbers(WHOLE, *shape, dtype=dtype), kind(RATE)
    whole = drop(module, x, times=3, channels_last=channels_last)
    its_own, of_others = [], []
    for rows in SPLITS[split]:
        options: dict[str, Any] = {"channels_last": channels_last, "batch_size": WHOLE}
        parts = drop(module, x[rows], times=3, rows=rows, **options)
        assert all(torch.equal(part, of_whole[rows]) for part, of_whole in zip(parts, whole, strict=True))
        its_own.append(torch.equal(drop(module, x[rows], channels_last=channels_last)[0], whole[0][rows]))
        of_others.append(torch.equal(drop(module, x[rows], rows=(rows + 1) % WHOLE, **options)[0], whole[0][rows]))
    assert not all(its_own), "masks as if each part were a whole"
    assert not all(of_others), "the rows of other samples"
    assert not torch.equal(whole[1], whole[0])


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("shape", [(), (7,), (3, 4, 5)], ids=str)
def test_the_rows_are_those_of_jaxs_whole_batch(shape: tuple[int, ...], x64: bool) -> None:
    rows = torch.tensor([4, 0, 11, 4])
    with jax.enable_x64(x64):
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(SEED), STEP), 0)
        expected = np.asarray(jax.random.bernoulli(key, 1 - RATE, (WHOLE, *shape)))[rows.numpy()]
    x = numbers(len(rows), *shape)
    options: dict[str, Any] = {"x64": x64, "batch_size": WHOLE}
    assert (drop(nn.Dropout(RATE), x, rows=rows, **options)[0].numpy() != 0).tolist() == expected.tolist()
    if shape:
        assert (drop(nn.Dropout(RATE), x, rows=rows.flip(0), **options)[0].numpy() != 0).tolist() != expected.tolist()
        assert (drop(nn.Dropout(RATE), x, rows=rows, step=STEP + 1, **options)[0] != 0).tolist() != expected.tolist()


def test_rows_alone_are_drawn() -> None:
    """Two rows of a batch whose mask, of two thousand million, would not fit."""
    rows, size = torch.tensor([2_000_000, 1]), 2_000_003
    key = random.key(7)
    drawn = bernoulli_rows(key, 0.5, (size, 1000), rows)
    assert drawn.shape == (2, 1000)
    assert torch.equal(drawn[1], random.bernoulli(key, 0.5, (2, 1000))[1])
    with pytest.raises(UsageError, match=r"fewer than 2\*\*31"):
        bernoulli_rows(key, 0.5, (size, 1100), rows)


def test_gradients_are_those_of_the_whole() -> None:
    whole, rows = numbers(WHOLE, 7).requires_grad_(), SPLITS["interleaved"][1]
    part = whole.detach()[rows].requires_grad_()
    drop(nn.Dropout(RATE), whole)[0].square().sum().backward()
    drop(nn.Dropout(RATE), part, rows=rows, batch_size=WHOLE)[0].square().sum().backward()
    assert whole.grad is not None
    assert part.grad is not None
    assert torch.equal(part.grad, whole.grad[rows])
    assert not torch.equal(part.grad, whole.grad[: len(rows)])


@pytest.mark.parametrize("as_given", [list, tuple, np.asarray, lambda rows: torch.tensor(rows, dtype=torch.uint8)])
def test_rows_come_as_any_sequence_of_integers(as_given: Any) -> None:
    x, rows = numbers(WHOLE, 50), [7, 2, 9]
    part = drop(nn.Dropout(RATE), x[rows], rows=as_given(rows), batch_size=WHOLE)[0]
    assert torch.equal(part, drop(nn.Dropout(RATE), x)[0][rows])


def test_a_replica_without_samples_drops_nothing() -> None:
    """As the last replicas of an epoch's last batch may be."""
    for rows in ([], torch.empty(0, dtype=torch.int64)):
        assert drop(nn.Dropout2d(RATE), numbers(0, 3, 4, 5), rows=rows, batch_size=2)[0].shape == (0, 3, 4, 5)


def test_rate_1_and_evaluation_are_as_without_rows() -> None:
    x = numbers(2, 5)
    assert (drop(nn.Dropout(1.0), x, rows=[3, 4], batch_size=WHOLE)[0] == 0).all()
    assert torch.equal(drop(nn.Dropout(RATE).eval(), x, rows=[3, 4], batch_size=WHOLE)[0], x)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": [0, 1]}, "rows and batch_size together, but got rows alone"),
        ({"batch_size": 4}, "rows and batch_size together, but got batch_size alone"),
        ({"rows": [0, 4], "batch_size": 4}, "positions in a batch of 4, from 0, but reach from 0 to 4"),
        ({"rows": [-1, 1], "batch_size": 4}, "positions in a batch of 4, from 0, but reach from -1 to 1"),
        ({"rows": [0.0, 1.0], "batch_size": 4}, "integers of shape .* torch.float32"),
        ({"rows": [True, False], "batch_size": 4}, "integers of shape .* torch.bool"),
        ({"rows": [[0, 1]], "batch_size": 4}, r"integers of shape .* \(1, 2\)"),
        ({"rows": torch.tensor(1), "batch_size": 4}, r"integers of shape .* \(\)"),
    ],
)
def test_rows_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    module = nn.Dropout(RATE)
    with pytest.raises(UsageError, match=message):
        drop(module, numbers(2, 5), **options)
    assert "forward" not in vars(module)


@pytest.mark.parametrize(
    ("module", "shape", "message"),
    [
        (nn.Dropout(), (3, 5), r"for 2 samples, as rows has, but it has the shape \(3, 5\)"),
        (nn.Dropout(), (), r"for 2 samples, as rows has, but it has the shape \(\)"),
        (nn.Dropout2d(), (5, 2, 3, 3), r"for 2 samples, as rows has, but it has the shape \(5, 2, 1, 1\)"),
        (nn.Dropout1d(), (2, 5), r"a batch dimension, but got \(2, 5\) for Dropout1d"),
        (nn.Dropout3d(), (2, 5, 4, 3), r"a batch dimension, but got \(2, 5, 4, 3\) for Dropout3d"),
    ],
)
def test_inputs_that_have_not_those_samples_are_refused(
    module: nn.Module, shape: tuple[int, ...], message: str
) -> None:
    drop(module, numbers(*shape))
    with pytest.raises(UsageError, match=message):
        drop(module, numbers(*shape), rows=[0, 1], batch_size=4)
