"""torch's own database of operators through the translator: each with its samples, alone and between convolutions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import pytest
import torch

from .images import Between, of_images
from .operators_run import row_of, table
from .sampled import Outcome, outcome, samples_of

pytestmark = pytest.mark.filterwarnings("ignore")  # torch warns of its own samples

PARTS = 24
SAMPLES = 2  # of each variant of an operator
SHORT = ("addmm", "cumsum", "einsum", "nn.functional.layer_norm", "scatter_reduce", "split")
counted: dict[int, dict[str, Outcome]] = {}


@pytest.fixture(autouse=True)
def compiled_quickly() -> Iterator[None]:
    """Turn off optimisation: these tests compile far more than they compute."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture(scope="module")
def database() -> list[Any]:
    with pytest.MonkeyPatch.context() as patch:
        # Importing the database freezes torch's backend flags.
        patch.setattr(torch.backends, "disable_global_flags", lambda: None)
        from torch.testing._internal.common_methods_invocations import op_db
    return list(op_db)


def translated(infos: list[Any], most: int) -> dict[str, Outcome]:
    """The result for each operator, its variants together."""
    found: dict[str, Outcome] = {}
    for info in infos:
        if not info.name.startswith("jiterator"):  # these want a GPU
            made = outcome(info.op, samples_of(info, most))
            found[info.name] = found.get(info.name, Outcome()) + made
    return found


def wrong(found: dict[str, Outcome]) -> dict[str, list[str]]:
    return {name: made.wrong for name, made in found.items() if made.wrong}


@pytest.mark.sweep
def test_some_operators(database: list[Any]) -> None:
    infos = [next(info for info in database if info.name == name) for name in SHORT]
    found = translated(infos, 1)
    assert wrong(found) == {}
    assert {name for name, made in found.items() if made.agree} == set(SHORT)


def test_the_kept_table_is_of_the_database(database: list[Any]) -> None:
    kept = table()
    names = {f"{info.name} {info.variant_test_name}".strip() for info in database if "jiterator" not in info.name}
    assert set(kept) <= names
    assert names - set(kept) == {"linalg.solve_triangular"}  # XLA takes too long for it
    agree = {row["name"] for row in kept.values() if row["agree"]}
    assert len(agree) >= IN_THE_TABLE
    for row in kept.values():
        others = sum(sum(row[word].values()) for word in ("unjudged", "refused", "wrong"))
        assert row["agree"] + others == row["run"] <= row["samples"], row
        assert not row["wrong"] or row["name"] in DIFFERENT, row


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["addr", "nn.functional.pad circular", "fft.fft2", "softmax"])
def test_the_kept_table_is_what_comes_of_it(name: str, database: list[Any]) -> None:
    info = next(info for info in database if f"{info.name} {info.variant_test_name}".strip() == name)
    assert row_of(info, seconds=200) == table()[name]


DIFFERENT: dict[str, str] = {}
"""Operators of which samples are called different, and why."""
IN_THE_TABLE = 520
"""Operators of which samples agree, when all samples of all were run."""


@pytest.mark.benchmark  # it counts, for half an hour, and some operators still differ: see AT_LEAST
@pytest.mark.parametrize("part", range(PARTS))
def test_operators(database: list[Any], part: int) -> None:
    found = counted[part] = translated(database[part::PARTS], SAMPLES)
    jax.clear_caches()
    assert wrong(found) == {}


@pytest.mark.benchmark
def test_how_many_agree() -> None:
    if len(counted) < PARTS:
        pytest.skip("not all parts have run")
    every: dict[str, Outcome] = {}
    for found in counted.values():
        for name, made in found.items():
            every[name] = every.get(name, Outcome()) + made
    agree = {name for name, made in every.items() if made.agree}
    print(len(agree), "operators,", sum(made.agree for made in every.values()), "samples;", end=" ")
    print(sum(len(made.refused) for made in every.values()), "samples refused")
    assert len(agree) >= AT_LEAST


AT_LEAST = 450
"""Operators of which samples agree."""


def test_what_cannot_be_judged_is_counted_as_that(database: list[Any]) -> None:
    info = next(info for info in database if info.name == "item")
    found = outcome(info.op, samples_of(info, 1))
    assert found.unjudged and not found.agree and not found.wrong


@pytest.mark.sweep
def test_a_difference_is_seen(database: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from port.pairs.ops import elementwise, matching

    wrong_pair = elementwise.elementwise("sin", "jnp.cos(input)")
    monkeypatch.setitem(matching._pairs_of(), "aten.sin", [wrong_pair])
    info = next(info for info in database if info.name == "sin")
    assert "DIFFER" in outcome(info.op, samples_of(info, 1)).wrong[0]


# %% On images, whose channels come last in JAX


def between(infos: list[Any], most: int) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    for info in infos:
        if not info.name.startswith("jiterator"):
            samples = of_images(info.op, samples_of(info, 12))[:most]
            found[info.name] = found.get(info.name, Outcome()) + outcome(info.op, samples, Between)
    return found


@pytest.mark.sweep
def test_some_operators_between_convolutions(database: list[Any]) -> None:
    found = between([info for info in database if info.name in ("flip", "nn.functional.max_pool2d")], 1)
    assert wrong(found) == {}
    assert all(made.agree for made in found.values())


@pytest.mark.benchmark  # it counts, for half an hour, and some operators still differ: see AT_LEAST
@pytest.mark.parametrize("part", range(PARTS))
def test_operators_between_convolutions(database: list[Any], part: int) -> None:
    found = between(database[part::PARTS], 2)
    jax.clear_caches()
    assert wrong(found) == {}
