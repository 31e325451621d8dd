"""New tensors: filled, counted, and copies in another dtype.

Of a dtype that is not given, torch takes the default dtype or int64, JAX the default float or whole number.
"""

from __future__ import annotations

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

PAIRS: tuple[OperatorPair, ...] = (
    OperatorPair("torch.zeros", "aten.zeros", "torch.zeros(size)", "jnp.zeros(size)"),
    OperatorPair("torch.ones", "aten.ones", "torch.ones(size)", "jnp.ones(size)"),
    OperatorPair("torch.full", "aten.full", "torch.full(size, fill_value)", "jnp.full(size, fill_value)"),
    elementwise("zeros_like", "jnp.zeros_like(input)"),
    elementwise("ones_like", "jnp.ones_like(input)"),
    OperatorPair(
        "torch.full_like", "aten.full_like", "torch.full_like(input, fill_value)", "jnp.full_like(input, fill_value)"
    ),
    OperatorPair("torch.Tensor.new_zeros", "aten.new_zeros", "input.new_zeros(size)", "jnp.zeros(size, input.dtype)"),
    OperatorPair("torch.Tensor.new_ones", "aten.new_ones", "input.new_ones(size)", "jnp.ones(size, input.dtype)"),
    OperatorPair(
        "torch.Tensor.new_full",
        "aten.new_full",
        "input.new_full(size, fill_value)",
        "jnp.full(size, fill_value, input.dtype)",
    ),
    OperatorPair("torch.arange", "aten.arange", "torch.arange(end)", "jnp.arange(end)"),
    OperatorPair(
        "torch.arange",
        "aten.arange",
        "torch.arange(start, end, step)",
        "jnp.arange(start, end, step)",
        only_if="not isinstance(step, bool)",
        left_out={"step": 1},
    ),
    OperatorPair(
        "torch.linspace", "aten.linspace", "torch.linspace(start, end, steps)", "jnp.linspace(start, end, steps)"
    ),
    OperatorPair(
        "torch.logspace",
        "aten.logspace",
        "torch.logspace(start, end, steps, base)",
        "jnp.logspace(start, end, steps, base=base)",
        left_out={"base": 10.0},
    ),
    OperatorPair("torch.eye", "aten.eye", "torch.eye(n, m)", "jnp.eye(n, m)", left_out={"m": None}),
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
    elementwise("clone", "jnp.copy(input)"),
    elementwise("detach", "lax.stop_gradient(input)"),
    *(
        OperatorPair(
            f"torch.Tensor.{name}",
            "aten.to",
            f"input.{name}()",
            f"input.astype(jnp.{dtype})",
            notes=_DEFAULT * (name == "double"),
        )
        for name, dtype in _DTYPES.items()
    ),
)
