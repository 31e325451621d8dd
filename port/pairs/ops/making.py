"""New tensors: filled, ranges, and copies in another dtype.

Without a dtype torch uses its default dtype or int64, JAX its default float or integer.
"""

from __future__ import annotations

from typing import Any

from port.pairs.ops.axes import Each
from port.pairs.ops.operator_pair import OperatorPair, elementwise

_DEFAULT = ("J7",)
_DTYPES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "bfloat16": "bfloat16",
    "int": "int32",
    "long": "int64",
    "short": "int16",
    "byte": "uint8",
    "char": "int8",
    "bool": "bool",
}


def _with_dtype(name: str, torch_arguments: str, jax_arguments: str, **more: Any) -> tuple[OperatorPair, OperatorPair]:
    """Pair a function, without and with a dtype."""
    torch, aten, jax = f"torch.{name}", f"aten.{name}", f"jnp.{name}"
    return (
        OperatorPair(torch, aten, f"{torch}({torch_arguments})", f"{jax}({jax_arguments})", **more),
        OperatorPair(
            torch, aten, f"{torch}({torch_arguments}, dtype=dtype)", f"{jax}({jax_arguments}, dtype=dtype)", **more
        ),
    )


PAIRS: tuple[OperatorPair, ...] = (
    *(
        pair
        for name, arguments in (("zeros", "size"), ("ones", "size"), ("full", "size, fill_value"))
        for pair in _with_dtype(name, arguments, arguments)
    ),
    *(
        pair
        for name, arguments in (("zeros_like", "input"), ("ones_like", "input"), ("full_like", "input, fill_value"))
        for pair in _with_dtype(name, arguments, arguments, axes=Each())
    ),
    *(
        OperatorPair(
            f"torch.Tensor.new_{name}",
            f"aten.new_{name}",
            f"input.new_{name}({arguments}{said})",
            f"jnp.{name}({arguments}, {dtype})",
        )
        for name, arguments in (("zeros", "size"), ("ones", "size"), ("full", "size, fill_value"))
        for said, dtype in (("", "input.dtype"), (", dtype=dtype", "dtype"))
    ),
    # Exported programs contain this for Tensor.zero_.
    elementwise("zero", "jnp.zeros_like(input)", module="torch.ops.aten"),
    OperatorPair("torch.fill", "aten.fill", "torch.fill(input, value)", "jnp.full_like(input, value)", axes=Each()),
    OperatorPair(
        "torch.scalar_tensor", "aten.scalar_tensor", "torch.scalar_tensor(s, dtype=dtype)", "jnp.asarray(s, dtype)"
    ),
    OperatorPair("torch.scalar_tensor", "aten.scalar_tensor", "torch.scalar_tensor(s)", "jnp.asarray(s, float)"),
    OperatorPair("torch.arange", "aten.arange", "torch.arange(end)", "jnp.arange(end)"),
    OperatorPair(
        "torch.arange",
        "aten.arange",
        "torch.arange(end, dtype=dtype)",
        "jnp.arange(end, dtype=dtype)",
        only_if="not isinstance(dtype, int | float)",
    ),
    *(
        OperatorPair(
            "torch.arange",
            "aten.arange",
            f"torch.arange(start, end, step{said})",
            f"jnp.arange(start, end, step{said})",
            only_if="not isinstance(step, bool)",
            left_out={"step": 1},
        )
        for said in ("", ", dtype=dtype")
    ),
    *_with_dtype("linspace", "start, end, steps", "start, end, steps"),
    *_with_dtype("logspace", "start, end, steps, base", "start, end, steps, base=base", left_out={"base": 10.0}),
    *_with_dtype("eye", "n, m", "n, m", left_out={"m": None}),
    OperatorPair(
        "torch.tril_indices",
        "aten.tril_indices",
        "torch.tril_indices(row, col, offset)",
        "jnp.stack(jnp.tril_indices(row, offset, col))",
        left_out={"offset": 0},
    ),
    OperatorPair(
        "torch.triu_indices",
        "aten.triu_indices",
        "torch.triu_indices(row, col, offset)",
        "jnp.stack(jnp.triu_indices(row, offset, col))",
        left_out={"offset": 0},
    ),
    # Arrays are immutable, so no copy is needed.
    elementwise("clone", "input"),
    elementwise("detach", "lax.stop_gradient(input)"),
    *(
        OperatorPair(
            f"torch.Tensor.{name}",
            "",  # `aten._to_copy`
            f"input.{name}()",
            f"input.astype(jnp.{dtype})",
            axes=Each(),
            notes=_DEFAULT * (name == "double"),
        )
        for name, dtype in _DTYPES.items()
    ),
    *(
        OperatorPair("torch.Tensor.to", "aten._to_copy", "input.to(dtype)", jax, only_if, axes=Each())
        for jax, only_if in (("input", "dtype is None or input.dtype == dtype"), ("input.astype(dtype)", ""))
    ),
    *(
        OperatorPair("torch.Tensor.type_as", "aten.type_as", "input.type_as(other)", jax, only_if, axes=Each())
        for jax, only_if in (("input", "input.dtype == other.dtype"), ("input.astype(other.dtype)", ""))
    ),
    *(
        OperatorPair("torch.ops.aten.copy", "aten.copy", "torch.ops.aten.copy(input, src)", jax, only_if, axes=Each())
        for jax, only_if in (
            ("src", "input.shape == src.shape and input.dtype == src.dtype"),
            ("jnp.broadcast_to(src, input.shape)", "input.dtype == src.dtype"),
            ("src.astype(input.dtype)", "input.shape == src.shape"),
            ("jnp.broadcast_to(src, input.shape).astype(input.dtype)", ""),
        )
    ),
)
