"""torch.nn.functional: activations, layers without weights of their own, convolution and pooling.

Axes are torch's, so what `port.nn.functional` has with channels last stands between two moves of them.
"""

from __future__ import annotations

from port.pairs.ops.operator_pair import OperatorPair

_F = "torch.nn.functional."


def _of_one(name: str, jax: str, *options: str, aten: str | None = None, **more: object) -> OperatorPair:
    """A function of ``input`` and some numbers."""
    return OperatorPair(
        f"{_F}{name}",
        f"aten.{name}" if aten is None else aten,
        f"{_F}{name}({', '.join(('input', *options))})",
        jax,
        **more,  # type: ignore[arg-type]
    )


_ACTIVATIONS = (
    _of_one("relu", "jax.nn.relu(input)"),
    _of_one("relu6", "jax.nn.relu6(input)"),
    _of_one("elu", "jax.nn.elu(input, alpha)", "alpha", left_out={"alpha": 1.0}),
    _of_one("selu", "jax.nn.selu(input)"),
    _of_one("celu", "F.celu(input, alpha)", "alpha", left_out={"alpha": 1.0}),
    _of_one("silu", "jax.nn.silu(input)"),
    _of_one("mish", "jax.nn.mish(input)"),
    _of_one("softsign", "jax.nn.soft_sign(input)", aten=""),
    _of_one("logsigmoid", "jax.nn.log_sigmoid(input)", aten="aten.log_sigmoid"),
    _of_one("hardswish", "jax.nn.hard_swish(input)"),
    _of_one("tanhshrink", "F.tanhshrink(input)", aten=""),
    _of_one("hardsigmoid", "F.hardsigmoid(input)"),
    _of_one(
        "hardtanh",
        "F.hardtanh(input, min_val, max_val)",
        "min_val",
        "max_val",
        left_out={"min_val": -1.0, "max_val": 1.0},
        notes=("G3",),
    ),
    _of_one(
        "leaky_relu",
        "F.leaky_relu(input, negative_slope)",
        "negative_slope",
        left_out={"negative_slope": 0.01},
        notes=("G3",),
    ),
    _of_one("hardshrink", "F.hardshrink(input, lambd)", "lambd", left_out={"lambd": 0.5}),
    _of_one("softshrink", "F.softshrink(input, lambd)", "lambd", left_out={"lambd": 0.5}),
    _of_one(
        "softplus", "F.softplus(input, beta, threshold)", "beta", "threshold", left_out={"beta": 1.0, "threshold": 20.0}
    ),
    _of_one("threshold", "F.threshold(input, threshold, value)", "threshold", "value"),
    _of_one(
        "gelu",
        'jax.nn.gelu(input, approximate=approximate == "tanh")',
        "approximate=approximate",
        left_out={"approximate": "none"},
        notes=("W12",),
    ),
    _of_one("glu", "jax.nn.glu(input, axis=dim)", "dim", left_out={"dim": -1}),
    _of_one("softmax", "jax.nn.softmax(input, axis=dim)", "dim"),
    _of_one("log_softmax", "jax.nn.log_softmax(input, axis=dim)", "dim"),
    _of_one("softmin", "jax.nn.softmax(-input, axis=dim)", "dim", aten="aten.softmax"),
    _of_one(
        "prelu",
        "jnp.where(input > 0, input, weight.reshape(-1, *(1,) * (input.ndim - 2)) * input)",
        "weight",
        only_if="input.ndim >= 2",
    ),
)


def _attention(only_if: str, masked: str) -> OperatorPair:
    # jax.nn.dot_product_attention takes the heads last but one, and rounds float64 to float32.
    scores = "query @ key.swapaxes(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)"
    return OperatorPair(
        f"{_F}scaled_dot_product_attention",
        "aten.scaled_dot_product_attention",
        f"{_F}scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale)",
        f"jax.nn.softmax({masked.format(scores=scores)}, axis=-1) @ value",
        only_if=f"dropout_p == 0 and {only_if}",
        left_out={"attn_mask": None, "dropout_p": 0.0, "is_causal": False, "scale": None},
        notes=("W16", "G6"),
    )


def _convolution(rank: int, bias: bool) -> OperatorPair:
    added = f" + bias.reshape(-1{', 1' * rank})" if bias else ""
    ones, zeros = (1,) * rank, (0,) * rank
    tuples = " and ".join(f"isinstance({name}, tuple)" for name in ("stride", "padding", "dilation"))
    return OperatorPair(
        f"{_F}conv{rank}d",
        f"aten.conv{rank}d",
        f"{_F}conv{rank}d(input, weight, bias, stride, padding, dilation, groups)",
        "lax.conv_general_dilated(input, weight, stride, [(p, p) for p in padding], rhs_dilation=dilation,"
        f" feature_group_count=groups){added}",
        only_if=f"bias is {'not ' if bias else ''}None and input.ndim == {rank + 2} and {tuples}",
        left_out={"bias": None, "stride": ones, "padding": zeros, "dilation": ones, "groups": 1},
        notes=("W2", "W3", "G6"),
    )


def _average(rank: int) -> OperatorPair:
    axis = -1 - rank
    return _of_one(
        f"avg_pool{rank}d",
        f"jnp.moveaxis(F.avg_pool(jnp.moveaxis(input, {axis}, -1), kernel_size, stride, padding, ceil_mode,"
        f" count_include_pad), -1, {axis})",
        *("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"),
        only_if="isinstance(kernel_size, tuple)",
        left_out={"stride": None, "padding": 0, "ceil_mode": False, "count_include_pad": True},
        notes=("W18",),
    )


def _maximum(rank: int) -> OperatorPair:
    axis = -1 - rank
    return _of_one(
        f"max_pool{rank}d",
        f"jnp.moveaxis(F.max_pool(jnp.moveaxis(input, {axis}, -1), kernel_size, stride, padding, dilation,"
        f" ceil_mode), -1, {axis})",
        *("kernel_size", "stride", "padding", "dilation", "ceil_mode=ceil_mode"),
        only_if="isinstance(kernel_size, tuple)",
        left_out={"stride": None, "padding": 0, "dilation": 1, "ceil_mode": False},
        notes=("W20",),
    )


def _adaptive(name: str, function: str, rank: int) -> OperatorPair:
    axis = -1 - rank
    return _of_one(
        f"{name}{rank}d",
        f"jnp.moveaxis(F.{function}(jnp.moveaxis(input, {axis}, -1), output_size), -1, {axis})",
        "output_size",
        only_if="isinstance(output_size, tuple)",
        notes=("W19",),
    )


PAIRS: tuple[OperatorPair, ...] = (
    *_ACTIVATIONS,
    OperatorPair(
        f"{_F}linear",
        "aten.linear",
        f"{_F}linear(input, weight, bias)",
        "input @ weight.T + bias",
        only_if="bias is not None",
        left_out={"bias": None},
        notes=("W1", "G6"),
    ),
    OperatorPair(
        f"{_F}linear",
        "aten.linear",
        f"{_F}linear(input, weight, bias)",
        "input @ weight.T",
        only_if="bias is None",
        left_out={"bias": None},
        notes=("W1", "G6"),
    ),
    OperatorPair(
        f"{_F}embedding",
        "aten.embedding",
        f"{_F}embedding(input, weight)",
        "jnp.take(weight, input, axis=0)",
        notes=("W17", "J3"),
    ),
    OperatorPair(
        f"{_F}one_hot",
        "aten.one_hot",
        f"{_F}one_hot(tensor, num_classes)",
        "jax.nn.one_hot(tensor, num_classes, dtype=int)",
        only_if="num_classes > 0",
    ),
    _of_one(
        "normalize",
        "input / jnp.maximum(jnp.linalg.vector_norm(input, ord=p, axis=dim, keepdims=True), eps)",
        *("p", "dim", "eps"),
        aten="",
        other_gradient="jnp.any(input == 0)",
        left_out={"p": 2.0, "dim": 1, "eps": 1e-12},
        notes=("G3",),
    ),
    _of_one(
        "layer_norm",
        "jax.nn.standardize(input, axis=range(-len(normalized_shape), 0), epsilon=eps) * weight + bias",
        *("normalized_shape", "weight", "bias", "eps"),
        only_if="weight is not None and bias is not None",
        left_out={"weight": None, "bias": None, "eps": 1e-5},
        notes=("W10", "W11"),
    ),
    _of_one(
        "rms_norm",
        "input * lax.rsqrt(jnp.square(input).mean(axis=range(-len(normalized_shape), 0), keepdims=True) + eps)"
        " * weight",
        *("normalized_shape", "weight", "eps"),
        only_if="weight is not None and eps is not None",
        left_out={"weight": None, "eps": None},
        notes=("W10",),
    ),
    OperatorPair(
        f"{_F}cosine_similarity",
        "aten.cosine_similarity",
        f"{_F}cosine_similarity(x1, x2, dim, eps)",
        "F.cosine_similarity(x1, x2, dim, eps)",
        only_if="x1.shape == x2.shape",
        left_out={"dim": 1, "eps": 1e-8},
    ),
    OperatorPair(
        f"{_F}pairwise_distance",
        "aten.pairwise_distance",
        f"{_F}pairwise_distance(x1, x2, p, eps, keepdim)",
        "F.pairwise_distance(x1, x2, p, eps, keepdim)",
        left_out={"p": 2.0, "eps": 1e-6, "keepdim": False},
    ),
    _attention("is_causal is False and attn_mask is None", "{scores}"),
    _attention(
        # A row that is blocked everywhere is 0 in torch, NaN here.
        "is_causal is False and attn_mask is not None and attn_mask.dtype == bool and jnp.all(jnp.any(attn_mask, -1))",
        "jnp.where(attn_mask, {scores}, -jnp.inf)",
    ),
    _attention("is_causal", "jnp.where(jnp.tri(query.shape[-2], key.shape[-2], dtype=bool), {scores}, -jnp.inf)"),
    *(_convolution(rank, bias) for rank in (1, 2, 3) for bias in (True, False)),
    *(_average(rank) for rank in (1, 2, 3)),
    *(_maximum(rank) for rank in (1, 2, 3)),
    *(
        _adaptive(f"adaptive_{kind}_pool", f"adaptive_{kind}_pool", rank)
        for kind in ("avg", "max")
        for rank in (1, 2, 3)
    ),
    _of_one(
        "interpolate",
        "jnp.moveaxis(F.interpolate(jnp.moveaxis(input, 1, -1), size, scale_factor, mode, align_corners), -1, 1)",
        *("size", "scale_factor", "mode", "align_corners"),
        aten="",
        left_out={"size": None, "scale_factor": None, "mode": "nearest", "align_corners": None},
        notes=("W21",),
    ),
)
