"""Where and how exactly both frameworks run when they are compared."""

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


@contextmanager
def default_dtype(precision: str) -> Iterator[None]:
    """Within it, what torch makes without a dtype, as a model's masks, is in a precision.

    Args:
        precision: the dtype's name, as "float64".
    """
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, precision))
    try:
        yield
    finally:
        torch.set_default_dtype(before)
