"""Arithmetic, rounding and elementary functions of one tensor or several, element by element.

A division of whole numbers by zero raises in torch's ``floor_divide``, ``remainder`` and ``fmod``; in JAX it gives some
number.
"""

from __future__ import annotations

from port.pairs.ops.operator_pair import OperatorPair, elementwise, of_two

_NAMED_ALIKE = (
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt"),
    *("square", "sign", "floor", "ceil", "trunc", "signbit", "isnan", "isinf", "isfinite", "isposinf", "isneginf"),
    *("logical_not", "deg2rad", "rad2deg", "sinc", "positive"),
)
_NAMED_ALIKE_OF_TWO = (
    *("copysign", "logaddexp", "logaddexp2", "heaviside", "gcd", "lcm", "maximum", "minimum"),
    *("fmod", "remainder", "float_power"),
)
_WITHOUT_NAN = "{}(jnp.where(jnp.isnan(input), other, input), jnp.where(jnp.isnan(other), input, other))"

PAIRS: tuple[OperatorPair, ...] = (
    *(elementwise(name, f"jnp.{name}(input)") for name in _NAMED_ALIKE),
    elementwise("neg", "-input"),
    # jnp.abs has gradient 1 at zero.
    elementwise("abs", "input * jnp.sign(input)", notes=("G3",)),
    elementwise("asin", "jnp.arcsin(input)"),
    elementwise("acos", "jnp.arccos(input)"),
    elementwise("atan", "jnp.arctan(input)"),
    elementwise("asinh", "jnp.arcsinh(input)"),
    elementwise("acosh", "jnp.arccosh(input)"),
    elementwise("atanh", "jnp.arctanh(input)"),
    elementwise("sgn", "jnp.sign(input)"),
    elementwise("frac", "input - jnp.trunc(input)"),
    elementwise("reciprocal", "1 / input"),
    elementwise("rsqrt", "1 / jnp.sqrt(input)"),
    elementwise("sigmoid", "jax.nn.sigmoid(input)"),
    elementwise("bitwise_not", "~input"),
    elementwise("round", "jnp.round(input)"),
    OperatorPair("torch.round", "aten.round", "torch.round(input, decimals=decimals)", "jnp.round(input, decimals)"),
    OperatorPair(
        "torch.nan_to_num",
        "aten.nan_to_num",
        "torch.nan_to_num(input, nan, posinf, neginf)",
        "jnp.nan_to_num(input, nan=nan, posinf=posinf, neginf=neginf)",
        only_if="nan is not None",
        left_out={"nan": 0.0, "posinf": None, "neginf": None},
    ),
    # %% Arithmetic
    of_two("add", "input + other", notes=("J6", "G7")),
    OperatorPair(
        "torch.add", "aten.add", "torch.add(input, other, alpha=alpha)", "input + alpha * other", notes=("J6", "G7")
    ),
    of_two("sub", "input - other", notes=("J6", "G7")),
    OperatorPair(
        "torch.sub", "aten.sub", "torch.sub(input, other, alpha=alpha)", "input - alpha * other", notes=("J6", "G7")
    ),
    of_two("rsub", "other - input", notes=("J6", "G7")),
    OperatorPair(
        "torch.rsub", "aten.rsub", "torch.rsub(input, other, alpha=alpha)", "other - alpha * input", notes=("J6", "G7")
    ),
    of_two("mul", "input * other", notes=("J6", "G7")),
    of_two("div", "input / other", notes=("J6",)),
    of_two("true_divide", "input / other", aten="aten.div", notes=("J6",)),
    OperatorPair(
        "torch.div",
        "aten.div",
        'torch.div(input, other, rounding_mode="floor")',
        "lax.stop_gradient(jnp.floor_divide(input, other))",
    ),
    OperatorPair(
        "torch.div",
        "aten.div",
        'torch.div(input, other, rounding_mode="trunc")',
        "jnp.trunc(input / other).astype(jnp.result_type(input, other))",
    ),
    of_two("floor_divide", "input // other"),
    OperatorPair(
        "torch.pow",
        "aten.pow",
        "torch.pow(input, exponent)",
        "input**exponent",
        other_gradient="jnp.any((input == 0) & (exponent == 0))",
    ),
    # There torch's gradient is NaN; that of JAX 0.10 is 0.5, of 0.12 NaN.
    of_two("hypot", "jnp.hypot(input, other)", only_if="not jnp.any((input == 0) & (other == 0))"),
    of_two("atan2", "jnp.arctan2(input, other)", other_gradient="jnp.any((input == 0) & (other == 0))"),
    of_two("ldexp", "input * 2.0**other"),
    # Equals share the gradient, as they do not in jnp.fmax and jnp.fmin.
    of_two("fmax", _WITHOUT_NAN.format("jnp.maximum"), notes=("G3",)),
    of_two("fmin", _WITHOUT_NAN.format("jnp.minimum"), notes=("G3",)),
    OperatorPair(
        "torch.lerp",
        "aten.lerp",
        "torch.lerp(input, end, weight)",
        "input + weight * (end - input)",
    ),
    OperatorPair(
        "torch.addcmul",
        "aten.addcmul",
        "torch.addcmul(input, tensor1, tensor2, value=value)",
        "input + value * tensor1 * tensor2",
        left_out={"value": 1},
    ),
    OperatorPair(
        "torch.addcdiv",
        "aten.addcdiv",
        "torch.addcdiv(input, tensor1, tensor2, value=value)",
        "input + value * tensor1 / tensor2",
        left_out={"value": 1},
    ),
    # %% Limits
    OperatorPair(
        "torch.clamp",
        "aten.clamp",
        "torch.clamp(input, min, max)",
        "jnp.where((min < input) & (input < max), input, lax.stop_gradient(jnp.clip(input, min, max)))",
        only_if="isinstance(min, int | float) and isinstance(max, int | float)",
        notes=("G3",),
    ),
    OperatorPair(
        "torch.clamp",
        "aten.clamp",
        "torch.clamp(input, min, max)",
        "jnp.clip(input, min, max)",
        only_if="isinstance(min, jax.Array) and isinstance(max, jax.Array)",
        notes=("G3",),
    ),
    OperatorPair(
        "torch.clamp_min",
        "aten.clamp_min",
        "torch.clamp_min(input, min)",
        "jnp.where(input > min, input, lax.stop_gradient(jnp.maximum(input, min)))",
        only_if="isinstance(min, int | float)",
        notes=("G3",),
    ),
    OperatorPair(
        "torch.clamp_max",
        "aten.clamp_max",
        "torch.clamp_max(input, max)",
        "jnp.where(input < max, input, lax.stop_gradient(jnp.minimum(input, max)))",
        only_if="isinstance(max, int | float)",
        notes=("G3",),
    ),
    *(of_two(name, f"jnp.{name}(input, other)") for name in _NAMED_ALIKE_OF_TWO),
)
