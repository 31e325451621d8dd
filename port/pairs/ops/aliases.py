"""ATen operators that are aliases of others, and share their pair."""

from __future__ import annotations

_SPECIAL = (
    *(
        "digamma",
        "erf",
        "erfc",
        "erfinv",
        "exp2",
        "expm1",
        "i0",
        "log1p",
        "log_softmax",
        "logit",
        "logsumexp",
        "polygamma",
    ),
    *("round", "sinc", "softmax", "xlogy"),
)
_OTHERS = {
    "absolute": "abs",
    # Copies and non-copies are the same: JAX arrays are immutable.
    **dict.fromkeys(("alias", "contiguous", "lift_fresh", "lift_fresh_copy", "resolve_conj", "resolve_neg"), "clone"),
    "to": "_to_copy",
    "_unsafe_view": "view",
    **{f"arc{name}{h}": f"a{name}{h}" for name in ("sin", "cos", "tan") for h in ("", "h")},
    "arctan2": "atan2",
    "clip": "clamp",
    "concat": "cat",
    "concatenate": "cat",
    "det": "linalg_det",
    "divide": "div",
    "fix": "trunc",
    "ger": "outer",
    "greater": "gt",
    "greater_equal": "ge",
    "inverse": "linalg_inv",
    "less": "lt",
    "less_equal": "le",
    "linalg_matmul": "matmul",
    "linalg_matrix_exp": "matrix_exp",
    "matrix_power": "linalg_matrix_power",
    "moveaxis": "movedim",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "row_stack": "vstack",
    "slogdet": "linalg_slogdet",
    "special_expit": "sigmoid",
    "special_gammainc": "igamma",
    "special_gammaincc": "igammac",
    "special_gammaln": "lgamma",
    "special_multigammaln": "mvlgamma",
    "special_psi": "digamma",
    "subtract": "sub",
    "swapdims": "transpose",
    "unsafe_chunk": "chunk",
    "unsafe_split": "split",
    "unsafe_split_with_sizes": "split_with_sizes",
    # Python's operators on integers and booleans.
    "__and__": "bitwise_and",
    "__or__": "bitwise_or",
    "__xor__": "bitwise_xor",
    "__lshift__": "bitwise_left_shift",
    "__rshift__": "bitwise_right_shift",
}

ALIASES: dict[str, str] = {
    f"aten.{alias}": f"aten.{name}"
    for alias, name in ({f"special_{name}": name for name in _SPECIAL} | _OTHERS).items()
}
"""Base name of an alias → base name of the equivalent operator with the same arguments."""


def meaning_of(base: str) -> str:
    """Return the operator that a base name is equivalent to: resolves aliases and ``_copy`` variants of views."""
    known = ALIASES.get(base, base)
    viewing = known.removesuffix("_copy")
    return ALIASES.get(viewing, viewing) if viewing.removeprefix("aten.") in _VIEWS else known


_VIEWS = frozenset(
    (
        *("alias", "as_strided", "detach", "diagonal", "expand", "narrow", "permute", "select", "slice", "split"),
        *("split_with_sizes", "squeeze", "t", "transpose", "unbind", "unfold", "unsqueeze", "view", "view_as_complex"),
        "view_as_real",
    )
)
