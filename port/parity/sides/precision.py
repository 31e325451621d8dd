"""The device and precision of both frameworks during a comparison."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def cpu_precision(x64: bool) -> Iterator[None]:
    """Run JAX on the CPU with exact products in this context.

    Args:
        x64: whether 64-bit types are enabled.
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
    """Set the dtype of tensors that torch makes without one, such as a model's masks, in this context.

    Args:
        precision: the dtype's name, such as "float64".
    """
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, precision))
    try:
        yield
    finally:
        torch.set_default_dtype(before)
