"""Scatter with reductions (mean, max, …) of several values at one index, with or without the old value."""

from __future__ import annotations

from port.pairs.ops.axes import Along
from port.pairs.ops.indexing import PLACES, along_first
from port.pairs.ops.operator_pair import OperatorPair

_SOURCE = "src[tuple(map(slice, index.shape))]"
_WITHOUT = ", include_self=False"
_MISSING = ("J3",)

PAIRS: tuple[OperatorPair, ...] = (
    *(
        OperatorPair(
            "torch.masked_scatter",
            "aten.masked_scatter",
            "torch.masked_scatter(input, mask, source)",
            f"jnp.where(mask, source.ravel()[jnp.cumsum({mask}.ravel()) - 1].reshape(input.shape), input)",
            only_if="mask.shape == input.shape" if alike else "mask.ndim <= input.ndim",
        )
        for alike, mask in ((True, "mask"), (False, "jnp.broadcast_to(mask, input.shape)"))
    ),
    *(
        OperatorPair(
            "torch.scatter_reduce",
            "aten.scatter_reduce",
            f'torch.scatter_reduce(input, dim, index, src, reduce="{reduce}"{said})',
            jax,
            only_if='input.dtype.kind == "f"',
            notes=_MISSING,
            axes=Along("dim"),
        )
        for reduce, said, jax in (
            ("mean", "", f"input.at[{PLACES}].add({_SOURCE}) / jnp.ones_like(input).at[{PLACES}].add(1)"),
            ("sum", _WITHOUT, f"input.at[{PLACES}].set(0).at[{PLACES}].add({_SOURCE})"),
            (
                "mean",
                _WITHOUT,
                f"input.at[{PLACES}].set(0).at[{PLACES}].add({_SOURCE})"
                f" / jnp.maximum(jnp.zeros_like(input).at[{PLACES}].add(1), 1)",
            ),
            ("amax", _WITHOUT, f"input.at[{PLACES}].set(-jnp.inf).at[{PLACES}].max({_SOURCE})"),
            ("amin", _WITHOUT, f"input.at[{PLACES}].set(jnp.inf).at[{PLACES}].min({_SOURCE})"),
        )
    ),
    *(
        OperatorPair(
            "torch.index_reduce",
            "aten.index_reduce",
            f'torch.index_reduce(input, dim, index, source, reduce="{reduce}")',
            jax,
            notes=_MISSING,
            axes=Along("dim"),
        )
        for reduce, jax in (
            ("amax", along_first("max", "jnp.moveaxis(source, dim, 0)")),
            ("amin", along_first("min", "jnp.moveaxis(source, dim, 0)")),
        )
    ),
)
