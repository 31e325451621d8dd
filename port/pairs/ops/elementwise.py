"""Elementwise arithmetic, rounding and elementary functions.

Integer division by zero raises in torch's ``floor_divide``, ``remainder`` and ``fmod``; JAX returns some number.
"""

from __future__ import annotations

from port.pairs.ops.axes import Each
from port.pairs.ops.operator_pair import OperatorPair, elementwise, elementwise_of_two

_NAMED_ALIKE = (
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt"),
    *("square", "sign", "floor", "ceil", "trunc", "signbit", "isnan", "isinf", "isfinite", "isposinf", "isneginf"),
    *("logical_not", "deg2rad", "rad2deg", "sinc"),
)
_NAMED_ALIKE_OF_TWO = (
    *("copysign", "logaddexp", "logaddexp2", "gcd", "lcm", "maximum", "minimum"),
    *("fmod", "remainder"),
)
_WITHOUT_NAN = "{}(jnp.where(jnp.isnan(input), other, input), jnp.where(jnp.isnan(other), input, other))"

PAIRS: tuple[OperatorPair, ...] = (
    *(elementwise(name, f"jnp.{name}(input)") for name in _NAMED_ALIKE),
    elementwise("neg", "-input"),
    elementwise("positive", "input"),
    # jnp.abs has gradient 1 at zero.
    elementwise("abs", "input * jnp.sign(input)", only_if='input.dtype.kind != "c"', notes=("G3",)),
    elementwise("abs", "jnp.abs(input)", only_if='input.dtype.kind == "c"'),
    elementwise("asin", "jnp.arcsin(input)"),
    elementwise("acos", "jnp.arccos(input)"),
    elementwise("atan", "jnp.arctan(input)"),
    elementwise("asinh", "jnp.arcsinh(input)"),
    elementwise("acosh", "jnp.arccosh(input)"),
    elementwise("atanh", "jnp.arctanh(input)"),
    elementwise("sgn", "jnp.sign(input)"),
    elementwise("frexp", "jnp.frexp(input)"),
    elementwise("frac", "input - jnp.trunc(input)"),
    elementwise("reciprocal", "1 / input"),
    elementwise("rsqrt", "jax.lax.rsqrt(input)", only_if='input.dtype.kind not in "iub"'),
    elementwise("rsqrt", "1 / jnp.sqrt(input)", only_if='input.dtype.kind in "iub"'),
    elementwise("sigmoid", "jax.nn.sigmoid(input)"),
    elementwise("bitwise_not", "~input"),
    elementwise("round", "jnp.round(input)"),
    OperatorPair(
        "torch.round", "aten.round", "torch.round(input, decimals=decimals)", "jnp.round(input, decimals)", axes=Each()
    ),
    OperatorPair(
        "torch.nan_to_num",
        "aten.nan_to_num",
        "torch.nan_to_num(input, nan, posinf, neginf)",
        "jnp.nan_to_num(input, nan=nan, posinf=posinf, neginf=neginf)",
        only_if="nan is not None",
        left_out={"nan": 0.0, "posinf": None, "neginf": None},
        axes=Each(),
    ),
    # %% Arithmetic
    elementwise_of_two("add", "input + other", notes=("J6", "G7")),
    OperatorPair(
        "torch.add",
        "aten.add",
        "torch.add(input, other, alpha=alpha)",
        "input + alpha * other",
        notes=("J6", "G7"),
        axes=Each(),
    ),
    elementwise_of_two("sub", "input - other", notes=("J6", "G7")),
    OperatorPair(
        "torch.sub",
        "aten.sub",
        "torch.sub(input, other, alpha=alpha)",
        "input - alpha * other",
        notes=("J6", "G7"),
        axes=Each(),
    ),
    elementwise_of_two("rsub", "other - input", notes=("J6", "G7")),
    OperatorPair(
        "torch.rsub",
        "aten.rsub",
        "torch.rsub(input, other, alpha=alpha)",
        "other - alpha * input",
        notes=("J6", "G7"),
        axes=Each(),
    ),
    elementwise_of_two("mul", "input * other", notes=("J6", "G7")),
    elementwise_of_two("div", "input / other", notes=("J6",)),
    elementwise_of_two("true_divide", "input / other", notes=("J6",)),
    OperatorPair(
        "torch.div",
        "aten.div",
        'torch.div(input, other, rounding_mode="floor")',
        "lax.stop_gradient(jnp.floor_divide(input, other))",
        axes=Each(),
    ),
    OperatorPair(
        "torch.div",
        "aten.div",
        'torch.div(input, other, rounding_mode="trunc")',
        "jnp.trunc(input / other).astype(jnp.result_type(input, other))",
        axes=Each(),
    ),
    elementwise_of_two("floor_divide", "input // other"),
    OperatorPair(
        "torch.pow",
        "aten.pow",
        "torch.pow(input, exponent)",
        "input**exponent",
        other_gradient="jnp.any((input == 0) & (exponent == 0))",
        axes=Each(),
    ),
    # At zero torch's gradient is NaN, that of JAX 0.10 is 0.5, that of JAX 0.12 NaN.
    elementwise_of_two("hypot", "jnp.hypot(input, other)", other_gradient="jnp.any((input == 0) & (other == 0))"),
    elementwise_of_two("atan2", "jnp.arctan2(input, other)", other_gradient="jnp.any((input == 0) & (other == 0))"),
    elementwise_of_two("ldexp", "input * 2.0**other"),
    # Equal values share the gradient (since torch 2.14), unlike in jnp.fmax and jnp.fmin.
    elementwise_of_two("fmax", _WITHOUT_NAN.format("jnp.maximum"), notes=("G3",)),
    elementwise_of_two("fmin", _WITHOUT_NAN.format("jnp.minimum"), notes=("G3",)),
    OperatorPair(
        "torch.lerp", "aten.lerp", "torch.lerp(input, end, weight)", "input + weight * (end - input)", axes=Each()
    ),
    OperatorPair(
        "torch.addcmul",
        "aten.addcmul",
        "torch.addcmul(input, tensor1, tensor2, value=value)",
        "input + value * tensor1 * tensor2",
        left_out={"value": 1},
        axes=Each(),
    ),
    OperatorPair(
        "torch.addcdiv",
        "aten.addcdiv",
        "torch.addcdiv(input, tensor1, tensor2, value=value)",
        "input + value * tensor1 / tensor2",
        left_out={"value": 1},
        axes=Each(),
    ),
    # %% Limits
    OperatorPair(
        "torch.clamp",
        "aten.clamp",
        "torch.clamp(input, min, max)",
        "jnp.where((min < input) & (input < max), input, lax.stop_gradient(jnp.clip(input, min, max)))",
        only_if="isinstance(min, int | float) and isinstance(max, int | float)",
        notes=("G3",),
        axes=Each(),
    ),
    OperatorPair(
        "torch.clamp",
        "aten.clamp",
        "torch.clamp(input, min, max)",
        "jnp.clip(input, min, max)",
        only_if='hasattr(min, "dtype") and hasattr(max, "dtype")',
        notes=("G3",),
        axes=Each(),
    ),
    OperatorPair(
        "torch.clamp",
        "aten.clamp",
        "torch.clamp(input, min)",
        "jnp.where(input > min, input, lax.stop_gradient(jnp.maximum(input, min)))",
        only_if="isinstance(min, int | float)",
        notes=("G3",),
        axes=Each(),
    ),
    OperatorPair(
        "torch.clamp",
        "aten.clamp",
        "torch.clamp(input, max=max)",
        "jnp.where(input < max, input, lax.stop_gradient(jnp.minimum(input, max)))",
        only_if="isinstance(max, int | float)",
        notes=("G3",),
        axes=Each(),
    ),
    *(
        OperatorPair(
            f"torch.{name}",
            f"aten.{name}",
            f"torch.{name}(input, {said})",
            f"jnp.{other}imum(input, {limit})",
            only_if=f'hasattr({limit}, "dtype")',
            notes=("G3",),
            axes=Each(),
        )
        for name, said, limit, other in (
            ("clamp", "min", "min", "max"),
            ("clamp", "max=max", "max", "min"),
            ("clamp_min", "min", "min", "max"),
            ("clamp_max", "max", "max", "min"),
        )
    ),
    OperatorPair(
        "torch.clamp_min",
        "aten.clamp_min",
        "torch.clamp_min(input, min)",
        "jnp.where(input > min, input, lax.stop_gradient(jnp.maximum(input, min)))",
        only_if="isinstance(min, int | float)",
        notes=("G3",),
        axes=Each(),
    ),
    OperatorPair(
        "torch.clamp_max",
        "aten.clamp_max",
        "torch.clamp_max(input, max)",
        "jnp.where(input < max, input, lax.stop_gradient(jnp.minimum(input, max)))",
        only_if="isinstance(max, int | float)",
        notes=("G3",),
        axes=Each(),
    ),
    *(elementwise_of_two(name, f"jnp.{name}(input, other)") for name in _NAMED_ALIKE_OF_TWO),
    elementwise_of_two("heaviside", "jnp.heaviside(input, other)", schema={"values": "other"}),
    elementwise_of_two("float_power", "jnp.float_power(input, other)", schema={"exponent": "other"}),
)
