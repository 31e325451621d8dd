"""Axes, shapes, repetition, reordering and padding."""

from __future__ import annotations

from port.pairs.ops.axes import Along, Inserted, Over, Permuted, Reshaped, Stretched, Widths
from port.pairs.ops.operator_pair import OperatorPair, of_one

_TENSOR, _F = "torch.Tensor.", "torch.nn.functional."

# Negative widths crop, which jnp.pad cannot.
_PADDED_OR_CUT = (
    "lax.pad(input, jnp.asarray({}, input.dtype), [(0, 0, 0)] * (input.ndim - len(pad) // 2)"
    " + [(low, high, 0) for low, high in zip(pad[::2], pad[1::2])][::-1])"
)

PAIRS: tuple[OperatorPair, ...] = (
    # %% Axes
    OperatorPair(
        "torch.permute", "aten.permute", "torch.permute(input, dims)", "jnp.transpose(input, dims)", axes=Permuted()
    ),
    *(
        OperatorPair(
            "torch.transpose",
            "aten.transpose",
            "torch.transpose(input, dim0, dim1)",
            jax,
            only_if=only_if,
            axes=Permuted(),
        )
        for jax, only_if in (("jnp.swapaxes(input, dim0, dim1)", "input.ndim > 0"), ("input", "input.ndim == 0"))
    ),
    OperatorPair("torch.t", "aten.t", "torch.t(input)", "input.T", axes=Permuted()),
    OperatorPair("torch.Tensor.T", "aten.numpy_T", "input.T", "input.T", axes=Permuted()),
    OperatorPair("torch.Tensor.mT", "aten.mT", "input.mT", "input.mT", axes=Permuted()),
    OperatorPair(
        "torch.movedim",
        "aten.movedim",
        "torch.movedim(input, source, destination)",
        "jnp.moveaxis(input, source, destination)",
        axes=Permuted(),
    ),
    OperatorPair(
        "torch.unsqueeze",
        "aten.unsqueeze",
        "torch.unsqueeze(input, dim)",
        "jnp.expand_dims(input, dim)",
        axes=Inserted("dim"),
    ),
    of_one("squeeze", "jnp.squeeze(input)"),
    OperatorPair(
        "torch.squeeze",
        "aten.squeeze",
        "torch.squeeze(input, dim)",
        "jnp.squeeze(input, dim)",
        # For other lengths torch keeps the axis, JAX raises.
        only_if="all(input.shape[axis] == 1 for axis in ((dim,) if isinstance(dim, int) else dim))",
        axes=Over("dim"),
    ),
    # %% Shapes
    OperatorPair(
        "torch.reshape",
        "aten.reshape",
        "torch.reshape(input, shape)",
        "input.reshape(*shape)",
        axes=Reshaped("shape"),
    ),
    OperatorPair(
        f"{_TENSOR}view",
        "aten.view",
        "input.view(shape)",
        "input.reshape(*shape)",
        only_if="isinstance(shape, tuple)",
        schema={"size": "shape"},
        axes=Reshaped("shape"),
    ),
    OperatorPair(f"{_TENSOR}view_as", "aten.view_as", "input.view_as(other)", "input.reshape(other.shape)"),
    OperatorPair(f"{_TENSOR}reshape_as", "aten.reshape_as", "input.reshape_as(other)", "input.reshape(other.shape)"),
    of_one("ravel", "input.ravel()"),
    OperatorPair(
        "torch.flatten",
        "aten.flatten",
        "torch.flatten(input, start_dim, end_dim)",
        "lax.collapse(input, start_dim % input.ndim, end_dim % input.ndim + 1)",
        left_out={"start_dim": 0, "end_dim": -1},
        notes=("W6",),
    ),
    OperatorPair(
        "torch.unflatten",
        "aten.unflatten",
        "torch.unflatten(input, dim, sizes)",
        "input.reshape(*input.shape[:dim], *sizes, *input.shape[dim:][1:])",
    ),
    OperatorPair(
        f"{_TENSOR}expand",
        "aten.expand",
        "input.expand(size)",
        "jnp.broadcast_to(input, size)",
        only_if="isinstance(size, tuple) and -1 not in size",
        axes=Stretched("size"),
    ),
    OperatorPair(
        f"{_TENSOR}expand_as", "aten.expand_as", "input.expand_as(other)", "jnp.broadcast_to(input, other.shape)"
    ),
    OperatorPair(
        "torch.broadcast_to",
        "aten.broadcast_to",
        "torch.broadcast_to(input, size)",
        "jnp.broadcast_to(input, size)",
        only_if="-1 not in size",
    ),
    OperatorPair(
        "torch.broadcast_tensors",
        "aten.broadcast_tensors",
        "torch.broadcast_tensors(*tensors)",
        "jnp.broadcast_arrays(*tensors)",
    ),
    *(of_one(name, f"jnp.{name}(input)", only_if='hasattr(input, "dtype")') for name in ("atleast_1d", "atleast_2d")),
    of_one("atleast_3d", "jnp.atleast_3d(input)", only_if='hasattr(input, "dtype")'),
    # %% Repeating and moving elements
    OperatorPair(f"{_TENSOR}repeat", "aten.repeat", "input.repeat(repeats)", "jnp.tile(input, repeats)"),
    OperatorPair("torch.tile", "aten.tile", "torch.tile(input, dims)", "jnp.tile(input, dims)"),
    OperatorPair(
        "torch.repeat_interleave",
        "aten.repeat_interleave",
        "torch.repeat_interleave(input, repeats, dim, output_size=output_size)",
        "jnp.repeat(input, repeats, axis=dim, total_repeat_length=output_size)",
        only_if='hasattr(repeats, "dtype") and dim is not None and output_size is not None',
        axes=Along("dim"),
    ),
    OperatorPair(
        "torch.repeat_interleave",
        "aten.repeat_interleave",
        "torch.repeat_interleave(input, repeats, dim)",
        "jnp.repeat(input, repeats, axis=dim)",
        left_out={"dim": None},
        only_if="dim is not None",
        axes=Along("dim"),
        schema={"output_size": ""},
    ),
    OperatorPair(
        "torch.repeat_interleave",
        "aten.repeat_interleave",
        "torch.repeat_interleave(input, repeats)",
        "jnp.repeat(input, repeats)",
        schema={"output_size": ""},
    ),
    OperatorPair(
        "torch.roll",
        "aten.roll",
        "torch.roll(input, shifts, dims)",
        "jnp.roll(input, shifts, axis=dims)",
        left_out={"dims": None},
        only_if="dims is not None",
        axes=Along("dims"),
    ),
    OperatorPair("torch.roll", "aten.roll", "torch.roll(input, shifts)", "jnp.roll(input, shifts)"),
    OperatorPair(
        "torch.flip", "aten.flip", "torch.flip(input, dims)", "jnp.flip(input, axis=dims)", axes=Along("dims")
    ),
    of_one("fliplr", "jnp.fliplr(input)"),
    of_one("flipud", "jnp.flipud(input)"),
    OperatorPair(
        "torch.rot90",
        "aten.rot90",
        "torch.rot90(input, k, dims)",
        "jnp.rot90(input, k, axes=dims)",
        left_out={"k": 1, "dims": (0, 1)},
        axes=Along("dims"),
    ),
    OperatorPair(
        f"{_F}pad",
        "aten.pad",
        f"{_F}pad(input, pad, mode=mode, value=value)",
        "jnp.pad(input, [(0, 0)] * (input.ndim - len(pad) // 2) + [*zip(pad[::2], pad[1::2])][::-1],"
        " constant_values=value or 0)",
        only_if='mode == "constant" and min(pad, default=0) >= 0',
        left_out={"mode": "constant", "value": None},
        notes=("W4",),
        axes=Widths("pad"),
    ),
    OperatorPair(
        f"{_F}pad",
        "aten.pad",
        f"{_F}pad(input, pad, mode=mode, value=value)",
        _PADDED_OR_CUT.format("value or 0"),
        only_if='mode == "constant"',
        left_out={"mode": "constant", "value": None},
        notes=("W4",),
        axes=Widths("pad"),
    ),
    OperatorPair(
        f"{_F}pad",
        "aten.pad",
        f"{_F}pad(input, pad, mode=mode)",
        "jnp.pad(input, [(0, 0)] * (input.ndim - len(pad) // 2) + [*zip(pad[::2], pad[1::2])][::-1],"
        ' mode={"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode])',
        only_if='mode != "constant" and min(pad) >= 0',
        notes=("W4",),
        axes=Widths("pad"),
    ),
    OperatorPair(
        "torch.meshgrid",
        "aten.meshgrid",
        "torch.meshgrid(*tensors, indexing=indexing)",
        "jnp.meshgrid(*tensors, indexing=indexing)",
        only_if="all(tensor.ndim == 1 for tensor in tensors)",
        left_out={"indexing": "ij"},
    ),
    OperatorPair(
        "torch.meshgrid",
        "aten.meshgrid",
        "torch.meshgrid(*tensors, indexing=indexing)",
        "jnp.meshgrid(*map(jnp.atleast_1d, tensors), indexing=indexing)",
        left_out={"indexing": "ij"},
    ),
    OperatorPair(
        f"{_TENSOR}unfold",
        "aten.unfold",
        "input.unfold(dimension, size, step)",
        "jnp.moveaxis(jnp.moveaxis(input, dimension, -1)[..., np.arange(0, input.shape[dimension] - size + 1, step)"
        "[:, None] + np.arange(size)], -2, dimension % input.ndim)",
        only_if="input.ndim > 0",
    ),
    OperatorPair(
        "torch.constant_pad_nd",
        "aten.constant_pad_nd",
        "torch.constant_pad_nd(input, pad, value)",
        _PADDED_OR_CUT.format("value"),
        left_out={"value": 0},
        notes=("W4",),
        axes=Widths("pad"),
    ),
)
