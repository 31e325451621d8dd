"""Random numbers: the same distributions, not the same numbers."""

from __future__ import annotations

from typing import Any

from port.pairs.ops.axes import Axes, Each
from port.pairs.ops.draws import Dropout, Key
from port.pairs.ops.operator_pair import OperatorPair

_NOTES = ("W25",)
_OPS = "torch.ops.aten."


def _of_key(
    torch: str, arguments: str, jax: str, *, aten: str = "", axes: Axes | None = None, **more: Any
) -> OperatorPair:
    name = torch.rpartition(".")[2]
    return OperatorPair(
        torch, aten or f"aten.{name}", f"{torch}({arguments})", jax, notes=_NOTES, axes=axes, draws=Key(), **more
    )


def _with_dtype(torch: str, arguments: str, jax: str) -> tuple[OperatorPair, ...]:
    """Pair a function of a size, without and with a dtype."""
    return (
        _of_key(torch, arguments, jax.format("")),
        _of_key(torch, f"{arguments}, dtype=dtype", jax.format(", dtype")),
    )


def _like(torch: str, arguments: str, jax: str) -> tuple[OperatorPair, ...]:
    """Pair a function of another tensor's shape, without and with a dtype."""
    return (
        _of_key(torch, arguments, jax.format("input.dtype"), axes=Each()),
        _of_key(torch, f"{arguments}, dtype=dtype", jax.format("dtype"), axes=Each()),
    )


_NORMAL = "mean + std * jax.random.normal(key, {}, {})"

PAIRS: tuple[OperatorPair, ...] = (
    OperatorPair(
        "torch.dropout", "aten.dropout", "torch.dropout(input, p, train)", "input", "not train or p == 0", axes=Each()
    ),
    OperatorPair(
        "torch.dropout",
        "aten.dropout",
        "torch.dropout(input, p, train)",
        "dropout(input)",
        only_if="train and p > 0",
        notes=_NOTES,
        axes=Each(),
        draws=Dropout("p"),
    ),
    *_with_dtype("torch.rand", "size", "jax.random.uniform(key, size{})"),
    *_with_dtype("torch.randn", "size", "jax.random.normal(key, size{})"),
    *_like("torch.rand_like", "input", "jax.random.uniform(key, input.shape, {})"),
    *_like("torch.randn_like", "input", "jax.random.normal(key, input.shape, {})"),
    *_with_dtype("torch.randint", "low, high, size", "jax.random.randint(key, size, low, high{})"),
    *_with_dtype("torch.randint", "high, size", "jax.random.randint(key, size, 0, high{})"),
    *(
        pair
        for arguments, low in (("input, low, high", "low"), ("input, high", "0"))
        for pair in (
            _of_key(
                "torch.randint_like",
                arguments,
                f"jax.random.randint(key, input.shape, {low}, high).astype(input.dtype)",
                axes=Each(),
            ),
            _of_key(
                "torch.randint_like",
                f"{arguments}, dtype=dtype",
                f"jax.random.randint(key, input.shape, {low}, high, dtype)",
                axes=Each(),
            ),
        )
    ),
    # Exported programs contain these for Tensor.uniform_ and similar methods.
    _of_key(
        f"{_OPS}uniform",
        "input, low, high",
        "jax.random.uniform(key, input.shape, input.dtype, low, high)",
        axes=Each(),
        schema={"from": "low", "to": "high"},
    ),
    _of_key(f"{_OPS}normal_functional", "input, mean, std", _NORMAL.format("input.shape", "input.dtype"), axes=Each()),
    _of_key(
        f"{_OPS}exponential",
        "input, lambd",
        "jax.random.exponential(key, input.shape, input.dtype) / lambd",
        axes=Each(),
    ),
    _of_key("torch.normal", "mean, std, size", "mean + std * jax.random.normal(key, size)"),
    *(
        _of_key(
            "torch.normal", "mean, std", f"lax.stop_gradient({_NORMAL.format(*drawn)})", only_if=only_if, axes=Each()
        )
        for drawn, only_if in (
            (
                ("mean.shape", "mean.dtype"),
                'hasattr(mean, "dtype") and getattr(std, "shape", mean.shape) == mean.shape',
            ),
            (("std.shape", "std.dtype"), 'not hasattr(mean, "dtype")'),
            (
                ("jnp.broadcast_shapes(mean.shape, std.shape)", "jnp.result_type(mean, std)"),
                'hasattr(mean, "dtype") and hasattr(std, "dtype") and mean.shape != std.shape',
            ),
        )
    ),
    _of_key(
        "torch.bernoulli",
        "input, p",
        "jax.random.bernoulli(key, p, input.shape).astype(input.dtype)",
        axes=Each(),
    ),
    _of_key("torch.bernoulli", "input", "jax.random.bernoulli(key, input).astype(input.dtype)", axes=Each()),
)
