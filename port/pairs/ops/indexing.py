"""Indexed reads and writes, and sorting.

An index out of range raises in torch but not in JAX. torch orders equal elements arbitrarily unless ``stable=True``;
JAX sorts stably.
"""

from __future__ import annotations

from port.pairs.ops.axes import Along, Over
from port.pairs.ops.operator_pair import OperatorPair, of_one

# The positions of index's elements, with index itself along the axis dim.
PLACES = "(*jnp.indices(index.shape, sparse=True)[:dim], index, *jnp.indices(index.shape, sparse=True)[dim:][1:])"
_BEFORE = "*(slice(None),) * (dim % input.ndim)"
_PART = f"{_BEFORE}, start:end:step"
_NO_MASK = 'all(not hasattr(index, "dtype") or index.dtype != bool for index in indices)'
_WITHOUT_DIM = "({0}.shape[:dim], {0}.shape[dim:][1:])"
_ALIKE_BUT_FOR_DIM = f"input.ndim and {_WITHOUT_DIM.format('index')} == {_WITHOUT_DIM.format('input')}"
_ORDER = {"dim": -1, "descending": False}
_MISSING = ("J3",)


def along_first(written: str, value: str) -> str:
    """Return an expression that updates slices along an axis, moved to the front and back."""
    return f"jnp.moveaxis(jnp.moveaxis(input, dim, 0).at[index].{written}({value}), 0, dim)"


PAIRS: tuple[OperatorPair, ...] = (
    OperatorPair(
        "torch.gather",
        "aten.gather",
        "torch.gather(input, dim, index)",
        "jnp.take_along_axis(input, index, axis=dim)",
        only_if=f"{_ALIKE_BUT_FOR_DIM}",
        notes=_MISSING,
        axes=Along("dim"),
    ),
    # index may be shorter than input along other axes.
    OperatorPair(
        "torch.gather",
        "aten.gather",
        "torch.gather(input, dim, index)",
        f"input[{PLACES}]",
        only_if="input.ndim == index.ndim",
        notes=_MISSING,
        axes=Along("dim"),
    ),
    OperatorPair(
        "torch.take_along_dim",
        "aten.take_along_dim",
        "torch.take_along_dim(input, indices, dim)",
        "jnp.take_along_axis(input, indices, axis=dim)",
        only_if="dim is not None",
        notes=_MISSING,
        axes=Along("dim"),
    ),
    OperatorPair("torch.take", "aten.take", "torch.take(input, index)", "jnp.take(input, index)", notes=_MISSING),
    OperatorPair(
        "torch.index_select",
        "aten.index_select",
        "torch.index_select(input, dim, index)",
        "jnp.take(input, jnp.atleast_1d(index), axis=dim)",
        notes=_MISSING,
        axes=Along("dim"),
    ),
    OperatorPair(
        "torch.masked_select",
        "",
        "torch.masked_select(input, mask)",
        "input[mask]",
        only_if="input.shape == mask.shape",
    ),
    # %% Writing
    OperatorPair(
        "torch.scatter",
        "aten.scatter",
        "torch.scatter(input, dim, index, src)",
        f"input.at[{PLACES}].set(src[tuple(map(slice, index.shape))])",
        only_if='hasattr(src, "dtype")',
        notes=_MISSING,
        axes=Along("dim"),
    ),
    OperatorPair(
        "torch.scatter",
        "aten.scatter",
        "torch.scatter(input, dim, index, value)",
        f"input.at[{PLACES}].set(value)",
        only_if="isinstance(value, int | float)",
        notes=_MISSING,
        axes=Along("dim"),
    ),
    OperatorPair(
        "torch.scatter_add",
        "aten.scatter_add",
        "torch.scatter_add(input, dim, index, src)",
        f"input.at[{PLACES}].add(src[tuple(map(slice, index.shape))])",
        notes=_MISSING,
        axes=Along("dim"),
    ),
    OperatorPair(
        "torch.index_add",
        "aten.index_add",
        "torch.index_add(input, dim, index, source, alpha=alpha)",
        along_first("add", "alpha * jnp.moveaxis(source, dim, 0)"),
        left_out={"alpha": 1},
        notes=_MISSING,
        axes=Along("dim"),
    ),
    OperatorPair(
        "torch.index_copy",
        "aten.index_copy",
        "torch.index_copy(input, dim, index, source)",
        along_first("set", "jnp.moveaxis(source, dim, 0)"),
        notes=_MISSING,
        axes=Along("dim"),
    ),
    OperatorPair(
        "torch.index_fill",
        "aten.index_fill",
        "torch.index_fill(input, dim, index, value)",
        along_first("set", "value"),
        notes=_MISSING,
        axes=Along("dim"),
    ),
    *(
        OperatorPair(
            "torch.scatter_reduce",
            "aten.scatter_reduce",
            f'torch.scatter_reduce(input, dim, index, src, reduce="{reduce}")',
            f"input.at[{PLACES}].{written}(src[tuple(map(slice, index.shape))])",
            notes=_MISSING,
            axes=Along("dim"),
        )
        # JAX cannot differentiate a product.
        for reduce, written in (("sum", "add"), ("amax", "max"), ("amin", "min"))
    ),
    *(
        OperatorPair(
            "torch.put",
            "aten.put",
            "torch.put(input, index, source, accumulate)",
            f"input.ravel().at[index].{written}(source.reshape(index.shape)).reshape(input.shape)",
            only_if=only_if,
            left_out={"accumulate": False},
            notes=_MISSING,
        )
        for written, only_if in (("add", "accumulate and input.dtype != bool"), ("set", "not accumulate"))
    ),
    OperatorPair(
        "torch.slice_scatter",
        "aten.slice_scatter",
        "torch.slice_scatter(input, src, dim, start, end, step)",
        f"input.at[{_PART}].set(src)",
        left_out={"dim": 0, "start": None, "end": None, "step": 1},
        axes=Along("dim"),
    ),
    # %% By masks and by index arrays: whole axes among them are slices
    *(
        OperatorPair(
            "torch.index_put",
            "aten.index_put",
            "torch.index_put(input, indices, values, accumulate)",
            f"jnp.where({mask}, input + values if accumulate else values, input)",
            only_if=f"len(indices) == 1 and indices[0].dtype == bool and values.shape in ((), (1,)) and {ranks}",
            left_out={"accumulate": False},
        )
        for mask, ranks in (
            ("indices[0]", "indices[0].ndim == input.ndim"),
            ("indices[0][..., *(None,) * (input.ndim - indices[0].ndim)]", "indices[0].ndim < input.ndim"),
        )
    ),
    OperatorPair(
        "torch.index_put",
        "aten.index_put",
        "torch.index_put(input, indices, values, accumulate)",
        "input.at[indices].add(values) if accumulate else input.at[indices].set(values)",
        only_if=_NO_MASK,
        left_out={"accumulate": False},
        notes=_MISSING,
    ),
    OperatorPair(
        "torch.ops.aten.index",
        "aten.index",
        "torch.ops.aten.index(input, indices)",
        "input[indices]",
        only_if=_NO_MASK,
        notes=_MISSING,
    ),
    OperatorPair(
        "torch.ops.aten.slice",
        "aten.slice",
        "torch.ops.aten.slice(input, dim, start, end, step)",
        f"input[{_PART}]",
        left_out={"dim": 0, "start": None, "end": None, "step": 1},
        axes=Along("dim"),
    ),
    OperatorPair(
        "torch.select_scatter",
        "aten.select_scatter",
        "torch.select_scatter(input, src, dim, index)",
        f"input.at[{_BEFORE}, index].set(src)",
        axes=Along("dim", without=("src",)),
    ),
    # %% Sorting
    OperatorPair(
        "torch.sort",
        "aten.sort",
        "torch.sort(input, dim, descending)",
        "(jnp.sort(input, axis=dim, descending=descending), jnp.argsort(input, axis=dim, descending=descending))",
        left_out=_ORDER,
        axes=Along("dim"),
        schema={"stable": ""},
    ),
    OperatorPair(
        "torch.argsort",
        "aten.argsort",
        "torch.argsort(input, dim, descending)",
        "jnp.argsort(input, axis=dim, descending=descending)",
        left_out=_ORDER,
        axes=Along("dim"),
        schema={"stable": ""},
    ),
    OperatorPair("torch.msort", "aten.msort", "torch.msort(input)", "jnp.sort(input, axis=0)"),
    OperatorPair(
        "torch.topk",
        "aten.topk",
        "torch.topk(input, k, dim)",
        "(lax.top_k(input, k, axis=dim)[0], lax.top_k(input, k, axis=dim)[1].astype(int))",
        left_out={"dim": -1},
        axes=Along("dim"),
        schema={"sorted": ""},
    ),
    OperatorPair(
        "torch.topk",
        "aten.topk",
        "torch.topk(input, k, dim, largest=False)",
        "(-lax.top_k(-input, k, axis=dim)[0], lax.top_k(-input, k, axis=dim)[1].astype(int))",
        left_out={"dim": -1},
        axes=Along("dim"),
        schema={"sorted": ""},
    ),
    OperatorPair(
        "torch.kthvalue",
        "aten.kthvalue",
        "torch.kthvalue(input, k, dim, keepdim)",
        "F.kthvalue(input, k, dim, keepdim)",
        left_out={"dim": -1, "keepdim": False},
        axes=Over("dim", "keepdim"),
    ),
    OperatorPair(
        "torch.searchsorted",
        "aten.searchsorted",
        "torch.searchsorted(sorted_sequence, input, out_int32=out_int32, right=right)",
        'jnp.searchsorted(sorted_sequence, input, side="right" if right else "left")'
        ".astype(jnp.int32 if out_int32 else int)",
        only_if="sorted_sequence.ndim == 1",
        left_out={"out_int32": False, "right": False},
    ),
    OperatorPair(
        "torch.searchsorted",
        "aten.searchsorted",
        "torch.searchsorted(sorted_sequence, input, out_int32=out_int32, right=right)",
        "F.searchsorted(sorted_sequence, input, right).astype(jnp.int32 if out_int32 else int)",
        only_if="sorted_sequence.ndim > 1 and hasattr(input, 'dtype')",
        left_out={"out_int32": False, "right": False},
    ),
    OperatorPair(
        "torch.bucketize",
        "aten.bucketize",
        "torch.bucketize(input, boundaries, out_int32=out_int32, right=right)",
        'jnp.searchsorted(boundaries, input, side="right" if right else "left")'
        ".astype(jnp.int32 if out_int32 else int)",
        left_out={"out_int32": False, "right": False},
    ),
    # %% Results whose shape depends on values: not under jit
    of_one("nonzero", "jnp.argwhere(input)", aten=""),
    of_one("argwhere", "jnp.argwhere(input)", aten=""),
    OperatorPair("torch.unique", "", "torch.unique(input)", "jnp.unique(input)"),
    OperatorPair(
        "torch.bincount",
        "",
        "torch.bincount(input, weights, minlength)",
        "jnp.bincount(input, weights, minlength)",
        left_out={"weights": None, "minlength": 0},
    ),
)
