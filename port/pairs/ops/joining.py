"""Joining and splitting tensors."""

from __future__ import annotations

from port.pairs.ops.axes import Along, Inserted, Over
from port.pairs.ops.operator_pair import OperatorPair

_TENSOR = "torch.Tensor."
# Size of each chunk but the last.
_SIZE = "-(-input.shape[dim] // chunks)"
_SIZES = {"split_size": "split_size_or_sections", "split_sizes": "split_size_or_sections"}
_PARTS = Along("dim", cuts=True)

PAIRS: tuple[OperatorPair, ...] = (
    OperatorPair(
        "torch.cat",
        "aten.cat",
        "torch.cat(tensors, dim)",
        "jnp.concatenate([*tensors], axis=dim)",
        only_if="len({tensor.ndim for tensor in tensors}) == 1",
        left_out={"dim": 0},
        axes=Along("dim"),
    ),
    OperatorPair(
        "torch.stack",
        "aten.stack",
        "torch.stack(tensors, dim)",
        "jnp.stack([*tensors], axis=dim)",
        left_out={"dim": 0},
        axes=Inserted("dim"),
    ),
    *(
        OperatorPair(f"torch.{name}", f"aten.{name}", f"torch.{name}(tensors)", f"jnp.{name}(tensors)")
        for name in ("hstack", "vstack", "dstack", "column_stack")
    ),
    # %% Splitting
    *(
        OperatorPair(
            "torch.split",
            aten,
            "torch.split(tensor, split_size_or_sections, dim)",
            f"jnp.split(tensor, {cuts}, axis=dim)",
            only_if=only_if,
            left_out={"dim": 0},
            axes=_PARTS,
            schema=_SIZES,
        )
        for aten, cuts, only_if in (
            (
                "aten.split",
                "tensor.shape[dim] // split_size_or_sections",
                "isinstance(split_size_or_sections, int) and tensor.shape[dim] > 0"
                " and tensor.shape[dim] % split_size_or_sections == 0",
            ),
            (
                "aten.split",
                "[*range(split_size_or_sections, tensor.shape[dim], split_size_or_sections)]",
                "isinstance(split_size_or_sections, int)",
            ),
            (
                "aten.split_with_sizes",
                "len(split_size_or_sections)",
                "isinstance(split_size_or_sections, tuple) and len(set(split_size_or_sections)) == 1",
            ),
            (
                "aten.split_with_sizes",
                "[sum(split_size_or_sections[:k]) for k in range(1, len(split_size_or_sections))]",
                "isinstance(split_size_or_sections, tuple)",
            ),
        )
    ),
    # jnp.array_split has other sizes: 7 in 4 is 2, 2, 2, 1 in both, but 6 in 4 is 2, 2, 2 in torch.
    *(
        OperatorPair(
            "torch.chunk",
            "aten.chunk",
            "torch.chunk(input, chunks, dim)",
            f"jnp.split(input, {cuts}, axis=dim)",
            only_if=only_if,
            left_out={"dim": 0},
            axes=_PARTS,
        )
        for cuts, only_if in (
            ("chunks", "input.shape[dim] > 0 and input.shape[dim] % chunks == 0"),
            (f"[*range({_SIZE}, input.shape[dim], {_SIZE})]", "input.shape[dim] != 0"),
        )
    ),
    OperatorPair(
        "torch.tensor_split",
        "aten.tensor_split",
        "torch.tensor_split(input, indices_or_sections, dim)",
        "jnp.array_split(input, indices_or_sections, axis=dim)",
        left_out={"dim": 0},
        axes=Along("dim"),
    ),
    *(
        OperatorPair(
            f"torch.{name}",
            f"aten.{name}",
            f"torch.{name}(input, indices_or_sections)",
            f"jnp.{name}(input, indices_or_sections)",
        )
        for name in ("hsplit", "vsplit", "dsplit")
    ),
    OperatorPair(
        "torch.unbind",
        "aten.unbind",
        "torch.unbind(input, dim)",
        "jnp.unstack(input, axis=dim)",
        left_out={"dim": 0},
        axes=Over("dim"),
    ),
    OperatorPair(
        "torch.narrow",
        "aten.narrow",
        "torch.narrow(input, dim, start, length)",
        "lax.slice_in_dim(input, start, start + length, axis=dim)",
        only_if="isinstance(start, int) and start >= 0",
        axes=Along("dim"),
    ),
    OperatorPair(
        "torch.select",
        "aten.select",
        "torch.select(input, dim, index)",
        "input[*(slice(None),) * (dim % input.ndim), index]",
        axes=Over("dim"),
    ),
)
