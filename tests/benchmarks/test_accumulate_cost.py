"""What each form of gradient accumulation costs to compile, to run and in memory, beside one another and torch's loop.

Run with ``pytest -m benchmark -s -n 0``; prints, and asserts what the lesson says of compiling and of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import pytest

import side_by_side.jax.accumulate as ours
import side_by_side.pytorch.accumulate as theirs

pytestmark = pytest.mark.benchmark

FORMS = (ours.unrolled, ours.fori_loop, ours.scan, ours.vmap, ours.multi_steps)


@pytest.fixture(autouse=True)
def compiled_anew() -> Iterator[None]:
    """float64, and no program from the cache on disk."""
    before = jax.config.jax_enable_compilation_cache
    jax.config.update("jax_enable_compilation_cache", False)
    with jax.enable_x64(True):
        ours.measure(ours.scan, 8)  # the first compilation in a process takes longer than any later one
        yield
    jax.config.update("jax_enable_compilation_cache", before)


def least(form: Callable[..., Any], k: int, runs: int = 3) -> tuple[float, float, float]:
    """Seconds to compile, milliseconds to run, MB: the least of each, as a busy machine only adds."""
    measured = []
    for _ in range(runs):
        jax.clear_caches()  # else the second compilation is none
        measured.append(ours.measure(form, k))
    compiling, running, memory = (min(column) for column in zip(*measured, strict=True))
    return compiling, running, memory


def test_a_scan_compiles_as_fast_for_64_microbatches_as_for_4() -> None:
    few, many = least(ours.scan, 4, 5)[0], least(ours.scan, 64, 5)[0]
    print(f"\nscan compiles in {few:.2f} s for 4 microbatches and {many:.2f} s for 64: ratio {many / few:.2f}")
    assert many <= 1.3 * few


def test_an_unrolled_loop_does_not() -> None:
    few, many = least(ours.unrolled, 4, 2)[0], least(ours.unrolled, 64, 1)[0]
    print(f"\nunrolled compiles in {few:.2f} s for 4 microbatches and {many:.2f} s for 64: ratio {many / few:.2f}")
    assert many > 1.3 * few


def test_the_forms_side_by_side() -> None:
    """64 microbatches of a batch of 1,024."""
    whole = least(ours.whole, 1)
    print(f"\n{'form':12} {'compile':>16} {'run':>18} {'temporary memory':>20}   (times the whole batch's)")
    memories = {}
    form: Callable[..., Any]
    for form in FORMS:
        measured = least(form, 64, runs=1 if form is ours.unrolled else 3)
        compiling, running, memory = (ours_ / once for ours_, once in zip(measured, whole, strict=True))
        memories[form.__name__] = measured[2]
        print(
            f"{form.__name__:12} {measured[0]:7.2f} s ({compiling:4.1f}) {measured[1]:8.1f} ms ({running:4.1f}) "
            f"{measured[2]:9.2f} MB ({memory:5.3f})"
        )
        torchs_ms, torchs_mb = theirs.measure(getattr(theirs, form.__name__), 64)
        print(f"{'  in torch':12} {'':16} {torchs_ms:8.1f} ms {'':6} {torchs_mb:9.2f} MB")
    assert max(memories["scan"], memories["fori_loop"], memories["multi_steps"]) < whole[2] / 10
    assert min(memories["vmap"], memories["unrolled"]) > whole[2]


def test_memory_falls_with_the_microbatch() -> None:
    memories = [ours.measure(ours.scan, k)[2] for k in ours.KS]
    print("\nscan: " + ", ".join(f"{memory:.2f} MB for k = {k}" for k, memory in zip(ours.KS, memories, strict=True)))
    assert memories == sorted(memories, reverse=True)
    assert memories[2] < memories[0] / 8
