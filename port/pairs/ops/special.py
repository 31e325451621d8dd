"""Special functions."""

from __future__ import annotations

from port.pairs.ops.operator_pair import OperatorPair, elementwise, of_two

_SPECIAL = "jax.scipy.special."

PAIRS: tuple[OperatorPair, ...] = (
    elementwise("erf", f"{_SPECIAL}erf(input)"),
    elementwise("erfc", f"{_SPECIAL}erfc(input)"),
    elementwise("erfinv", f"{_SPECIAL}erfinv(input)"),
    elementwise("lgamma", f"{_SPECIAL}gammaln(input)"),
    *(
        elementwise(name, f"{_SPECIAL}{name}(input)", module="torch.special", aten=f"aten.special_{name}")
        for name in ("i0e", "i1", "i1e", "log_ndtr", "ndtri", "entr")
    ),
    of_two("xlogy", f"{_SPECIAL}xlogy(input, other)", other_gradient="jnp.any((input == 0) & (other == 0))"),
    of_two("xlog1py", f"{_SPECIAL}xlog1py(input, other)", module="torch.special", aten="aten.special_xlog1py"),
    of_two("zeta", f"{_SPECIAL}zeta(input, other)", module="torch.special", aten="aten.special_zeta"),
    of_two("igamma", f"{_SPECIAL}gammainc(input, other)"),
    of_two("igammac", f"{_SPECIAL}gammaincc(input, other)"),
    OperatorPair("torch.logit", "aten.logit", "torch.logit(input)", f"{_SPECIAL}logit(input)"),
    OperatorPair(
        "torch.logit",
        "aten.logit",
        "torch.logit(input, eps)",
        f"{_SPECIAL}logit(jnp.clip(input, eps, 1 - eps))",
        only_if="eps is not None and eps < 0.5",
    ),
    OperatorPair("torch.mvlgamma", "aten.mvlgamma", "torch.mvlgamma(input, p)", f"{_SPECIAL}multigammaln(input, p)"),
)
