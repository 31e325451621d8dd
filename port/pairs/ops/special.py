"""Special functions."""

from __future__ import annotations

from port.pairs.ops.axes import Each
from port.pairs.ops.operator_pair import OperatorPair, elementwise, elementwise_of_two

_SPECIAL = "jax.scipy.special."

PAIRS: tuple[OperatorPair, ...] = (
    elementwise("erf", f"{_SPECIAL}erf(input)"),
    elementwise("erfc", f"{_SPECIAL}erfc(input)"),
    elementwise("erfinv", f"{_SPECIAL}erfinv(input)"),
    elementwise("lgamma", f"{_SPECIAL}gammaln(input)"),
    elementwise("digamma", f"{_SPECIAL}digamma(input)", other_gradient="jnp.any(input < 0)"),
    elementwise("i0", f"{_SPECIAL}i0(input)"),
    *(
        elementwise(name, jax, module="torch.special", aten=f"aten.special_{name}")
        for name, jax in (
            # torch loses digits in the tails; jax.scipy.special.ndtr does not.
            ("ndtr", f"(1 + {_SPECIAL}erf(input * np.sqrt(0.5))) / 2"),
            ("modified_bessel_i0", f"{_SPECIAL}i0(input)"),
            ("modified_bessel_i1", f"{_SPECIAL}i1(input)"),
        )
    ),
    *(
        elementwise(name, f"{_SPECIAL}{name}(input)", module="torch.special", aten=f"aten.special_{name}")
        for name in ("i0e", "i1", "i1e", "log_ndtr", "ndtri", "entr")
    ),
    elementwise_of_two(
        "xlogy", f"{_SPECIAL}xlogy(input, other)", other_gradient="jnp.any((input == 0) & (other == 0))"
    ),
    elementwise_of_two(
        "xlog1py", f"{_SPECIAL}xlog1py(input, other)", module="torch.special", aten="aten.special_xlog1py"
    ),
    elementwise_of_two(
        "zeta",
        "F.zeta(input, other)",
        module="torch.special",
        aten="aten.special_zeta",
        other_gradient="jnp.any((other <= 0) & (other == jnp.floor(other)))",
    ),
    # For n > 0 jax.scipy.special.polygamma is wrong in the fourth digit for negative input.
    OperatorPair(
        "torch.polygamma",
        "aten.polygamma",
        "torch.polygamma(n, input)",
        f"{_SPECIAL}digamma(input)",
        only_if="n == 0",
        other_gradient="jnp.any(input < 0)",
        axes=Each(),
    ),
    elementwise_of_two("igamma", f"{_SPECIAL}gammainc(input, other)"),
    elementwise_of_two("igammac", f"{_SPECIAL}gammaincc(input, other)"),
    OperatorPair("torch.logit", "aten.logit", "torch.logit(input)", f"{_SPECIAL}logit(input)", axes=Each()),
    OperatorPair(
        "torch.logit",
        "aten.logit",
        "torch.logit(input, eps)",
        f"{_SPECIAL}logit(jnp.clip(input, eps, 1 - eps))",
        only_if="eps is not None and eps < 0.5",
        axes=Each(),
    ),
    OperatorPair(
        "torch.mvlgamma", "aten.mvlgamma", "torch.mvlgamma(input, p)", f"{_SPECIAL}multigammaln(input, p)", axes=Each()
    ),
)
