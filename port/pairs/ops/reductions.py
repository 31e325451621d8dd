"""Sums, means, spreads, extremes, and what accumulates along an axis."""

from __future__ import annotations

from port.pairs.ops.operator_pair import OperatorPair, elementwise

_ALONG = {"dim": None, "keepdim": False}
_CONSTANT = "jnp.any(jnp.var(input, axis=dim) == 0)"
_EQUALS = "jnp.unique(input).size < input.size"
_WHOLE = "dtype=jnp.result_type(input, jnp.int_)"
_SPREAD = {"dim": None, "correction": 1, "keepdim": False}
_TAKEN = "jnp.take_along_axis(input, jnp.{arg}(input, axis=dim, keepdims=True), axis=dim)"
_KEPT, _DROPPED = (
    f"({_TAKEN}, jnp.{{arg}}(input, axis=dim, keepdims=True))",
    f"({_TAKEN}.squeeze(dim), jnp.{{arg}}(input, axis=dim))",
)


def _along(name: str, jax: str, **more: object) -> OperatorPair:
    """A reduction over an axis, several or all, whose axis may be kept."""
    return OperatorPair(
        f"torch.{name}",
        f"aten.{name}",
        f"torch.{name}(input, dim, keepdim=keepdim)",
        f"{jax}(input, axis=dim, keepdims=keepdim)",
        left_out=_ALONG,
        **more,  # type: ignore[arg-type]
    )


def _spread(name: str, jax: str, other_gradient: str = "") -> OperatorPair:
    # A bool in the place of dim is the deprecated unbiased.
    return OperatorPair(
        f"torch.{name}",
        f"aten.{name}",
        f"torch.{name}(input, dim, correction=correction, keepdim=keepdim)",
        jax,
        only_if="not isinstance(dim, bool) and correction is not None",
        other_gradient=other_gradient,
        left_out=_SPREAD,
        notes=("G4",),
    )


PAIRS: tuple[OperatorPair, ...] = (
    _along("sum", "jnp.sum", notes=("G5",)),
    _along("nansum", "jnp.nansum", notes=("G5",)),
    _along("mean", "jnp.mean"),
    _along("nanmean", "jnp.nanmean"),
    elementwise("prod", "jnp.prod(input)", notes=("G5",)),
    OperatorPair(
        "torch.prod",
        "aten.prod",
        "torch.prod(input, dim, keepdim=keepdim)",
        "jnp.prod(input, axis=dim, keepdims=keepdim)",
        only_if="isinstance(dim, int)",
        left_out={"keepdim": False},
        notes=("G5",),
    ),
    _along("all", "jnp.all"),
    _along("any", "jnp.any"),
    _along("amax", "jnp.max", notes=("G3",)),
    _along("amin", "jnp.min", notes=("G3",)),
    _along("argmax", "jnp.argmax"),
    _along("argmin", "jnp.argmin"),
    _along("logsumexp", "jax.nn.logsumexp"),
    OperatorPair(
        "torch.count_nonzero",
        "aten.count_nonzero",
        "torch.count_nonzero(input, dim)",
        "jnp.count_nonzero(input, axis=dim)",
        left_out={"dim": None},
    ),
    # %% Spreads
    _spread("var", "jnp.var(input, axis=dim, ddof=correction, keepdims=keepdim)"),
    _spread("std", "jnp.std(input, axis=dim, ddof=correction, keepdims=keepdim)", _CONSTANT),
    _spread(
        "var_mean",
        "(jnp.var(input, axis=dim, ddof=correction, keepdims=keepdim), jnp.mean(input, axis=dim, keepdims=keepdim))",
    ),
    _spread(
        "std_mean",
        "(jnp.std(input, axis=dim, ddof=correction, keepdims=keepdim), jnp.mean(input, axis=dim, keepdims=keepdim))",
        _CONSTANT,
    ),
    # %% Extremes with their places: of equals torch differentiates the one that it names, the first
    elementwise("max", "jnp.max(input)", notes=("G3",)),
    elementwise("min", "jnp.min(input)", notes=("G3",)),
    OperatorPair(
        "torch.max",
        "aten.max",
        "torch.max(input, other)",
        "jnp.maximum(input, other)",
        only_if="isinstance(other, jax.Array)",
    ),
    OperatorPair(
        "torch.min",
        "aten.min",
        "torch.min(input, other)",
        "jnp.minimum(input, other)",
        only_if="isinstance(other, jax.Array)",
    ),
    *(
        OperatorPair(
            f"torch.{name}",
            f"aten.{name}",
            f"torch.{name}(input, dim{kept})",
            said.format(arg=f"arg{name}"),
            only_if="isinstance(dim, int)",
            notes=("G3",),
        )
        for name in ("max", "min")
        for kept, said in (("", _DROPPED), (", keepdim=True", _KEPT))
    ),
    OperatorPair(
        "torch.aminmax",
        "aten.aminmax",
        "torch.aminmax(input, dim=dim, keepdim=keepdim)",
        "(jnp.min(input, axis=dim, keepdims=keepdim), jnp.max(input, axis=dim, keepdims=keepdim))",
        left_out=_ALONG,
        notes=("G3",),
    ),
    # %% Middles: torch's median of an even number is the lower of the two
    elementwise("median", 'jnp.quantile(input, 0.5, method="lower").astype(input.dtype)', other_gradient=_EQUALS),
    elementwise("nanmedian", 'jnp.nanquantile(input, 0.5, method="lower").astype(input.dtype)', other_gradient=_EQUALS),
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
    OperatorPair(
        "torch.cumsum",
        "aten.cumsum",
        "torch.cumsum(input, dim)",
        f"jnp.cumsum(input, axis=dim, {_WHOLE})",
        notes=("G5",),
    ),
    OperatorPair(
        "torch.cumprod",
        "aten.cumprod",
        "torch.cumprod(input, dim)",
        f"jnp.cumprod(input, axis=dim, {_WHOLE})",
        notes=("G5",),
    ),
    OperatorPair(
        "torch.logcumsumexp",
        "aten.logcumsumexp",
        "torch.logcumsumexp(input, dim)",
        "lax.cumlogsumexp(input, axis=dim % input.ndim)",
    ),
    OperatorPair(
        "torch.diff",
        "aten.diff",
        "torch.diff(input, n, dim, prepend, append)",
        "jnp.diff(input, n, axis=dim, prepend=prepend, append=append)",
        left_out={"n": 1, "dim": -1, "prepend": None, "append": None},
    ),
    OperatorPair(
        "torch.trapezoid",
        "aten.trapezoid",
        "torch.trapezoid(y, x, dim=dim)",
        "jnp.trapezoid(y, x, axis=dim)",
        only_if="x is not None",
        left_out={"dim": -1},
    ),
)
