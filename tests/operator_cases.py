"""Values for operators of which torch's own database has no fitting samples."""

from __future__ import annotations

from typing import Any

import torch

Case = tuple[str, dict[str, Any]]
"""The operator, or all that its pair says; and its variables, but for those that are left out."""

F = "torch.nn.functional."


def x(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed + 1)
    return torch.randn(*shape, generator=generator, dtype=torch.float64) + 0.1


HALF = torch.tensor([[1000.5, 2000.0, 57.0], [3.0, -4.0, 2500.0]], dtype=torch.float16)
IMAGE, POOL = x(2, 3, 6, 7), {"kernel_size": (3, 2), "stride": (2, 1), "padding": 1}
CONVOLUTION = {"weight": x(6, 2, 3, 2), "padding": "same", "groups": 2}
INDICES = torch.tensor([1, 2, 1, 0])
SCATTERED = {"input": x(3, 4), "dim": 1, "index": torch.tensor([[0, 2], [3, 1], [2, 0]]), "src": x(3, 2, seed=1)}
VALUE = {name: value for name, value in SCATTERED.items() if name != "src"} | {"value": 1.5}
AFFINE = {"weight": x(3, seed=2), "bias": x(3, seed=3)}
RUNNING = {"running_mean": x(3), "running_var": x(3).square()}
MOMENTUM = {"momentum": 0.1, "eps": 1e-5}


def resized(mode: str, *shape: int, corners: bool = False, antialias: bool = False) -> Case:
    said = [f'mode="{mode}"', "align_corners=align_corners" * corners, "antialias=True" * antialias]
    says = f"{F}interpolate(input, size, scale_factor, {', '.join(filter(None, said))})"
    sizes = tuple(size + 2 for size in shape[2:])
    return says, {"input": x(*shape), "size": sizes, **({"align_corners": False} if corners else {})}


def distinct(axes: int) -> torch.Tensor:
    """Places in an image of 4 elements along each axis."""
    return torch.arange(2 * 2**axes).reshape(1, 2, *(2,) * axes).flip(-1)


CASES: tuple[Case, ...] = (
    # %% dtypes that are given
    (
        "torch.linalg.vector_norm(x, ord, dim, keepdim=keepdim, dtype=dtype)",
        {"x": x(3, 4).float(), "ord": 3.0, "dim": 1, "dtype": torch.float64},
    ),
    *(
        (f"torch.{name}(input, dim, {keepdim}dtype=dtype)", {"input": HALF, "dim": 1, "dtype": torch.float64})
        for keepdim, names in (
            ("keepdim=keepdim, ", ("sum", "nansum", "mean", "nanmean", "prod")),
            ("", ("cumsum", "cumprod", "nn.functional.softmax", "nn.functional.log_softmax")),
        )
        for name in names
    ),
    *((f"torch.{name}_like(input, dtype=dtype)", {"input": HALF, "dtype": torch.int32}) for name in ("zeros", "ones")),
    ("torch.full_like(input, fill_value, dtype=dtype)", {"input": HALF, "fill_value": 3, "dtype": torch.int32}),
    *((f"torch.{name}(size, dtype=dtype)", {"size": (2, 3), "dtype": torch.int32}) for name in ("zeros", "ones")),
    ("torch.full(size, fill_value, dtype=dtype)", {"size": (2,), "fill_value": 3, "dtype": torch.float32}),
    *(
        (f"input.new_{name}(size, dtype=dtype)", {"input": HALF, "size": (2,), "dtype": torch.int32})
        for name in ("zeros", "ones")
    ),
    (
        "input.new_full(size, fill_value, dtype=dtype)",
        {"input": HALF, "size": (2,), "fill_value": 3, "dtype": torch.int32},
    ),
    ("torch.arange(end, dtype=dtype)", {"end": 4, "dtype": torch.float32}),
    ("torch.arange(start, end, step, dtype=dtype)", {"start": 1, "end": 4, "dtype": torch.float32}),
    ("torch.linspace(start, end, steps, dtype=dtype)", {"start": 0.0, "end": 1.0, "steps": 5, "dtype": torch.float64}),
    (
        "torch.logspace(start, end, steps, base, dtype=dtype)",
        {"start": 0.0, "end": 1.0, "steps": 5, "dtype": torch.float64},
    ),
    ("torch.eye(n, m, dtype=dtype)", {"n": 3, "m": 4, "dtype": torch.int32}),
    ("torch.scalar_tensor", {"s": 2, "dtype": torch.int32}),
    # %% Limits, and functions of one number
    ("torch.clamp(input, min)", {"input": x(3, 4), "min": -0.5}),
    ("torch.clamp(input, max=max)", {"input": x(3, 4), "max": 0.5}),
    ("torch.clamp(input, min, max)", {"input": x(3, 4), "min": -0.5, "max": 0.5}),
    ("torch.clamp_min(input, min)", {"input": x(3, 4), "min": 0.5}),
    ("torch.clamp_max(input, max)", {"input": x(3, 4), "max": 0.5}),
    ("torch.i0", {"input": x(3, 4)}),
    *((f"torch.special.{name}(input)", {"input": x(3, 4)}) for name in ("i0e", "i1", "i1e")),
    ("torch.ops.aten.zero", {"input": x(3, 4)}),
    ("torch.detach", {"input": x(3, 4)}),
    ("torch.imag", {"input": torch.complex(x(3, 4), x(3, 4, seed=1))}),
    ("torch.view_as_real", {"input": torch.complex(x(3, 4), x(3, 4, seed=1))}),
    *((f"torch.fft.{name}", {"n": 5, "d": 0.5}) for name in ("fftfreq", "rfftfreq")),
    # %% Products
    ("torch.cdist", {"x1": x(2, 3, 4), "x2": x(2, 5, 4, seed=1)}),
    ("torch.linalg.tensorsolve", {"A": x(2, 3, 6), "B": x(2, 3)}),
    ("torch.ops.aten.tensordot", {"input": x(2, 3, 4), "other": x(4, 2), "dims_self": (0, 2), "dims_other": (1, 0)}),
    # %% Indices
    (
        f"{F}embedding(input, weight, padding_idx)",
        {"input": torch.tensor([1, 2, 1, 0]), "weight": x(4, 3), "padding_idx": 1},
    ),
    ("torch.scatter(input, dim, index, value)", VALUE),
    *(
        (f'torch.scatter_reduce(input, dim, index, src, reduce="{reduce}")', SCATTERED)
        for reduce in ("sum", "amax", "amin")
    ),
    (
        "torch.repeat_interleave(input, repeats, dim, output_size=output_size)",
        {"input": x(3, 4), "repeats": torch.tensor([1, 2, 0, 3]), "dim": 1, "output_size": 6},
    ),
    ("torch.topk(input, k, dim, largest=False)", {"input": x(3, 5), "k": 2}),
    *(
        (f'torch.scatter_reduce(input, dim, index, src, reduce="{reduce}"{said})', SCATTERED)
        for reduce, said in (
            ("mean", ""),
            *((reduce, ", include_self=False") for reduce in ("sum", "mean", "amax", "amin")),
        )
    ),
    *(
        (
            f'torch.index_reduce(input, dim, index, source, reduce="{reduce}")',
            {"input": x(3, 4), "dim": 1, "index": torch.tensor([2, 0]), "source": x(3, 2, seed=1)},
        )
        for reduce in ("amax", "amin")
    ),
    # Its gradient in torch is off by 5e-10 at 1, against many digits; by 2e-11 at 7.5.
    ("torch.polygamma", {"n": 0, "input": torch.tensor([7.5, 9.25, 20.0], dtype=torch.float64)}),
    ("torch.linalg.lu", {"A": x(4, 3)}),
    (
        "torch.istft",
        {"input": torch.complex(x(2, 5, 4), x(2, 5, 4, seed=1)), "n_fft": 8, "hop_length": 3, "center": True},
    ),
    *(
        ("torch.masked_scatter", {"input": x(3, 4), "mask": mask, "source": x(12, seed=1)})
        for mask in (x(3, 4) > 0, x(4) > 0)
    ),
    (
        "torch.searchsorted(sorted_sequence, input, out_int32=out_int32, right=right)",
        {"sorted_sequence": x(3, 5).sort().values, "input": x(3, 4, seed=1), "right": True},
    ),
    # %% Convolution and pooling
    (f"{F}conv1d", {"input": x(2, 4, 9), "weight": x(6, 2, 3), "bias": x(6), "groups": 2}),
    (f"{F}conv1d", {"input": x(4, 9), "weight": x(6, 2, 3), "bias": x(6), "groups": 2}),
    *(
        (f"{F}conv2d", {"input": image, **CONVOLUTION, **bias})
        for image in (x(2, 4, 5, 6), x(4, 5, 6))
        for bias in ({"bias": x(6)}, {})
    ),
    (f"{F}conv3d", {"input": x(1, 2, 4, 5, 6), "weight": x(3, 2, 2, 3, 2)}),
    (f"{F}conv3d", {"input": x(2, 4, 5, 6), "weight": x(3, 2, 2, 3, 2)}),
    (f"{F}avg_pool2d", {"input": IMAGE, **POOL, "ceil_mode": True}),
    (f"{F}max_pool1d", {"input": x(2, 3, 7), "kernel_size": (3,)}),
    (f"{F}max_pool2d", {"input": IMAGE, **POOL}),
    (f"{F}max_pool3d", {"input": x(1, 2, 4, 5, 6), "kernel_size": (2, 3, 2)}),
    *(
        (f"{F}adaptive_max_pool1d(input, output_size{said})", {"input": x(2, 3, 7), "output_size": (3,)})
        for said in ("", ", return_indices=True")
    ),
    (f"{F}adaptive_max_pool2d", {"input": IMAGE, "output_size": (3, 2)}),
    (f"{F}adaptive_max_pool3d", {"input": x(1, 2, 4, 5, 6), "output_size": (3, 2, 4)}),
    *(
        (
            f"torch.ops.aten.max_unpool{axes}d",
            {"input": x(1, 2, *(2,) * axes), "indices": distinct(axes), "output_size": (4,) * axes, **more},
        )
        for axes, more in ((2, {}), (3, {"stride": (2, 2, 2), "padding": (0, 0, 0)}))
    ),
    (f"{F}affine_grid", {"theta": x(2, 2, 3), "size": (2, 1, 4, 5), "align_corners": True}),
    (f"{F}affine_grid", {"theta": x(2, 3, 4), "size": (2, 1, 4, 5, 3), "align_corners": False}),
    (f"{F}rrelu(input, lower, upper, training=False)", {"input": x(3, 4)}),
    (f"{F}prelu", {"input": x(4), "weight": x(1)}),
    # %% Resizing, blocks and norms
    *(
        resized(mode, *shape)
        for mode in ("nearest", "nearest-exact")
        for shape in ((2, 3, 5), (2, 3, 4, 5), (1, 2, 3, 4, 5))
    ),
    *(resized(mode, 2, 3, 4, 5, corners=True, antialias=True) for mode in ("bilinear", "bicubic")),
    (f"{F}fold", {"input": x(2, 12, 12), "output_size": (4, 5), "kernel_size": (2, 2)}),
    (f"{F}instance_norm", {"input": x(2, 3, 4, 5), **AFFINE}),
    ("torch.ops.aten._native_batch_norm_legit.no_stats", {"input": IMAGE, **AFFINE, "training": True, **MOMENTUM}),
    (
        "torch.native_layer_norm",
        {"input": x(2, 4), "normalized_shape": (4,), "weight": x(4), "bias": x(4), "eps": 0.1},
    ),
    *(
        (f"{F}batch_norm", {"input": x(2, 3, 4), **RUNNING, **{name: AFFINE[name] for name in given}})
        for given in (("weight",), ("bias",), ())
    ),
    # %% What an export writes of views, copies and casts
    ("torch.split", {"tensor": x(5, 4), "split_size_or_sections": 2, "dim": 0}),
    ("torch.split", {"tensor": x(5, 4), "split_size_or_sections": (2, 2, 1), "dim": 0}),
    ("torch.split", {"tensor": x(6, 4), "split_size_or_sections": (2, 2, 2), "dim": 0}),
    ("torch.ops.aten.slice", {"input": x(5, 4, 3), "dim": 1, "start": 1, "end": 4, "step": 2}),
    ("torch.ops.aten.index", {"input": x(5, 4), "indices": (INDICES,)}),
    ("torch.index_put", {"input": x(3, 4), "indices": (x(3, 4) > 0,), "values": x(1)}),
    ("torch.index_put", {"input": x(3, 4), "indices": (x(3) > 0,), "values": x(1)}),
    ("torch.addmm", {"input": x(3, 5), "mat1": x(3, 4), "mat2": x(4, 5, seed=1), "beta": 0, "alpha": 2}),
    ("torch.addmv", {"input": x(3), "mat": x(3, 4), "vec": x(4, seed=1), "beta": 0, "alpha": 2}),
    ("torch.addr", {"input": x(3, 4), "vec1": x(3), "vec2": x(4, seed=1), "beta": 0, "alpha": 2}),
    ("torch.scalar_tensor(s)", {"s": 1.5}),
    *(("torch.Tensor.to", {"input": x(3, 4), "dtype": dtype}) for dtype in (torch.float64, torch.float32)),
    *(
        ("torch.Tensor.type_as", {"input": x(3, 4), "other": x(2).to(dtype)})
        for dtype in (torch.float64, torch.float32)
    ),
    *(
        ("torch.ops.aten.copy", {"input": x(3, 4).to(dtype), "src": x(*shape, seed=1)})
        for dtype in (torch.float64, torch.float32)
        for shape in ((3, 4), (1, 4))
    ),
    ("torch.dropout", {"input": x(3, 4), "p": 0.5, "train": False}),
    (f"{F}batch_norm", {"input": x(2, 3, 4), **RUNNING, **AFFINE}),
)
