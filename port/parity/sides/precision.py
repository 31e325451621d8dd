"""Where and how exactly JAX runs when it is compared."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def cpu_precision(x64: bool) -> Iterator[None]:
    """Within it, JAX runs on the CPU, with exact products.

    Args:
        x64: whether it has 64-bit types.
    """
    import jax

    with (
        jax.enable_x64(x64),
        jax.default_device(jax.devices("cpu")[0]),
        jax.default_matmul_precision("highest"),
    ):
        yield
