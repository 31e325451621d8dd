"""Sums, means, variances, extremes, quantiles and cumulative operators."""

from __future__ import annotations

from port.pairs.ops.axes import Along, Each, Over
from port.pairs.ops.operator_pair import OperatorPair, of_one

_ALONG = {"dim": None, "keepdim": False}
_OVER = Over("dim", "keepdim")
_MIDDLE = 'jnp.{}(input, 0.5, method="lower").astype(input.dtype)'
_EQUALS = "jnp.unique(input).size < input.size"
_WHOLE = "jnp.result_type(input, jnp.int_)"
_SPREAD = {"dim": None, "correction": 1, "keepdim": False}
_TAKEN = "jnp.take_along_axis(input, jnp.{arg}(input, axis=dim, keepdims=True), axis=dim)"
_KEPT, _DROPPED = (
    f"({_TAKEN}, jnp.{{arg}}(input, axis=dim, keepdims=True))",
    f"({_TAKEN}.squeeze(dim), jnp.{{arg}}(input, axis=dim))",
)


def _along(name: str, jax: str, **more: object) -> OperatorPair:
    """Pair a reduction over one, several or all axes, which may be kept."""
    return OperatorPair(
        f"torch.{name}",
        f"aten.{name}",
        f"torch.{name}(input, dim, keepdim=keepdim)",
        f"{jax}(input, axis=dim, keepdims=keepdim)",
        left_out=_ALONG,
        axes=_OVER,
        **more,  # type: ignore[arg-type]
    )


def _along_in_dtype(name: str, jax: str) -> OperatorPair:
    """Pair a reduction with a dtype to convert to first."""
    return OperatorPair(
        f"torch.{name}",
        f"aten.{name}",
        f"torch.{name}(input, dim, keepdim=keepdim, dtype=dtype)",
        f"{jax}(input, axis=dim, keepdims=keepdim, dtype=dtype)",
        left_out=_ALONG,
        axes=_OVER,
    )


def _spread(name: str, jax: str, *notes: str) -> OperatorPair:
    # A bool as dim is the deprecated argument unbiased.
    return OperatorPair(
        f"torch.{name}",
        f"aten.{name}",
        f"torch.{name}(input, dim, correction=correction, keepdim=keepdim)",
        jax,
        only_if="not isinstance(dim, bool) and correction is not None",
        left_out=_SPREAD,
        axes=_OVER,
        notes=("G4", *notes),
    )


PAIRS: tuple[OperatorPair, ...] = (
    _along("sum", "jnp.sum", notes=("G5",)),
    _along("nansum", "jnp.nansum", notes=("G5",)),
    _along("mean", "jnp.mean"),
    _along("nanmean", "jnp.nanmean"),
    *(_along_in_dtype(name, f"jnp.{name}") for name in ("sum", "nansum", "mean", "nanmean")),
    of_one("prod", "jnp.prod(input)", notes=("G5",), axes=Over(None)),
    *(
        OperatorPair(
            "torch.prod",
            "aten.prod",
            f"torch.prod(input, dim, keepdim=keepdim{said})",
            f"jnp.prod(input, axis=dim, keepdims=keepdim{said})",
            only_if="isinstance(dim, int)",
            left_out={"keepdim": False},
            notes=("G5",),
            axes=_OVER,
        )
        for said in ("", ", dtype=dtype")
    ),
    _along("all", "jnp.all"),
    _along("any", "jnp.any"),
    _along("amax", "jnp.max", notes=("G3",)),
    _along("amin", "jnp.min", notes=("G3",)),
    *(
        OperatorPair(
            f"torch.{name}",
            f"aten.{name}",
            f"torch.{name}(input, dim, keepdim=keepdim)",
            f"jnp.{name}(input, axis=dim, keepdims=keepdim)",
            only_if=only_if,
            left_out=_ALONG,
            axes=axes,
        )
        for name in ("argmax", "argmin")
        # The index in the flattened array depends on the order of axes.
        for only_if, axes in (("dim is not None", _OVER), ("dim is None", None))
    ),
    _along("logsumexp", "jax.nn.logsumexp"),
    OperatorPair(
        "torch.count_nonzero",
        "aten.count_nonzero",
        "torch.count_nonzero(input, dim)",
        "jnp.count_nonzero(input, axis=dim)",
        left_out={"dim": None},
        axes=Over("dim"),
    ),
    # %% Variances
    _spread("var", "jnp.var(input, axis=dim, ddof=correction, keepdims=keepdim)"),
    _spread("std", "F.std(input, dim=dim, correction=correction, keepdim=keepdim)", "G3"),
    _spread(
        "var_mean",
        "(jnp.var(input, axis=dim, ddof=correction, keepdims=keepdim), jnp.mean(input, axis=dim, keepdims=keepdim))",
    ),
    _spread(
        "std_mean",
        "(F.std(input, dim=dim, correction=correction, keepdim=keepdim), jnp.mean(input, axis=dim, keepdims=keepdim))",
        "G3",
    ),
    # %% Extremes with indices: among equals torch returns and differentiates the first
    of_one("max", "jnp.max(input)", notes=("G3",), axes=Over(None)),
    of_one("min", "jnp.min(input)", notes=("G3",), axes=Over(None)),
    OperatorPair(
        "torch.max",
        "aten.max",
        "torch.max(input, other)",
        "jnp.maximum(input, other)",
        only_if='hasattr(other, "dtype")',
        axes=Each(),
    ),
    OperatorPair(
        "torch.min",
        "aten.min",
        "torch.min(input, other)",
        "jnp.minimum(input, other)",
        only_if='hasattr(other, "dtype")',
        axes=Each(),
    ),
    *(
        OperatorPair(
            f"torch.{name}",
            f"aten.{name}",
            f"torch.{name}(input, dim{kept})",
            said.format(arg=f"arg{name}"),
            only_if="isinstance(dim, int)",
            notes=("G3",),
            axes=Over("dim") if said == _DROPPED else Along("dim"),
        )
        for name in ("max", "min")
        for kept, said in (("", _DROPPED), (", keepdim=True", _KEPT))
    ),
    OperatorPair(
        "torch.median",
        "aten.median",
        "torch.median(input, dim, keepdim=keepdim)",
        "F.kthvalue(input, (input.shape[dim] + 1) // 2, dim, keepdim)",
        only_if="isinstance(dim, int)",
        left_out={"keepdim": False},
        notes=("G3",),
        axes=_OVER,
    ),
    OperatorPair(
        "torch.mode",
        "aten.mode",
        "torch.mode(input, dim, keepdim)",
        "F.mode(input, dim, keepdim)",
        left_out={"dim": -1, "keepdim": False},
        axes=_OVER,
    ),
    OperatorPair(
        "torch.aminmax",
        "aten.aminmax",
        "torch.aminmax(input, dim=dim, keepdim=keepdim)",
        "(jnp.min(input, axis=dim, keepdims=keepdim), jnp.max(input, axis=dim, keepdims=keepdim))",
        left_out=_ALONG,
        notes=("G3",),
        axes=_OVER,
    ),
    # %% Quantiles: torch's median of an even number of values is the lower of the middle two
    of_one("median", _MIDDLE.format("quantile"), other_gradient=_EQUALS, axes=Over(None)),
    of_one("nanmedian", _MIDDLE.format("nanquantile"), other_gradient=_EQUALS, axes=Over(None)),
    OperatorPair(
        "torch.quantile",
        "aten.quantile",
        "torch.quantile(input, q, dim, keepdim=keepdim, interpolation=interpolation)",
        "jnp.quantile(input, q, axis=dim, keepdims=keepdim, method=interpolation)",
        left_out={**_ALONG, "interpolation": "linear"},
    ),
    OperatorPair(
        "torch.nanquantile",
        "aten.nanquantile",
        "torch.nanquantile(input, q, dim, keepdim=keepdim, interpolation=interpolation)",
        "jnp.nanquantile(input, q, axis=dim, keepdims=keepdim, method=interpolation)",
        left_out={**_ALONG, "interpolation": "linear"},
    ),
    # %% Along an axis
    *(
        OperatorPair(
            f"torch.{name}",
            f"aten.{name}",
            f"torch.{name}(input, dim{said})",
            f"jnp.{name}(input, axis=dim, dtype={dtype})",
            notes=("G5",),
            axes=Along("dim"),
        )
        for name in ("cumsum", "cumprod")
        for said, dtype in (("", _WHOLE), (", dtype=dtype", "dtype"))
    ),
    OperatorPair(
        "torch.logcumsumexp",
        "aten.logcumsumexp",
        "torch.logcumsumexp(input, dim)",
        "lax.cumlogsumexp(input, axis=dim % input.ndim)",
        axes=Along("dim"),
    ),
    OperatorPair(
        "torch.diff",
        "aten.diff",
        "torch.diff(input, n, dim, prepend, append)",
        "jnp.diff(input, n, axis=dim, prepend=prepend, append=append)",
        left_out={"n": 1, "dim": -1, "prepend": None, "append": None},
        axes=Along("dim"),
    ),
    *(
        OperatorPair(
            f"torch.{name}",
            f"aten.{name}",
            f"torch.{name}(y, {said}, dim=dim)",
            f"jnp.trapezoid(y, {said}, axis=dim)",
            only_if=only_if,
            left_out={**left_out, "dim": -1},
        )
        for name in ("trapezoid", "trapz")
        for said, only_if, left_out in (("x", "x is not None", {}), ("dx=dx", 'not hasattr(dx, "dtype")', {"dx": 1}))
    ),
    *(
        OperatorPair(
            f"torch.{name}",
            f"aten.{name}",
            f"torch.{name}(input, dim)",
            f"F.{name}(input, dim)",
            only_if="input.dtype != bool",
            notes=("G3",),
            axes=Along("dim"),
        )
        for name in ("cummax", "cummin")
    ),
    OperatorPair(
        "torch.histc",
        "aten.histc",
        "torch.histc(input, bins, min, max)",
        "jnp.histogram(input, bins, None if min == max == 0 else (min, max))[0].astype(input.dtype)",
        only_if="0 not in input.shape",
        left_out={"bins": 100, "min": 0, "max": 0},
    ),
    OperatorPair(
        "torch.histc",
        "aten.histc",
        "torch.histc(input, bins, min, max)",
        "jnp.zeros(bins, input.dtype)",
        only_if="0 in input.shape",
        left_out={"bins": 100, "min": 0, "max": 0},
    ),
)
