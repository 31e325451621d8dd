"""torch.nn.functional: activations, and functions of layers. Operators on images are in `images`."""

from __future__ import annotations

from port.pairs.ops.axes import Along, Axes, Each, Over, Product
from port.pairs.ops.draws import Dropout
from port.pairs.ops.operator_pair import OperatorPair

_F = "torch.nn.functional."


def _of_one(
    name: str, jax: str, *options: str, aten: str | None = None, axes: Axes | None = None, **more: object
) -> OperatorPair:
    """Pair a function of ``input`` and options."""
    return OperatorPair(
        f"{_F}{name}",
        f"aten.{name}" if aten is None else aten,
        f"{_F}{name}({', '.join(('input', *options))})",
        jax,
        axes=axes,
        **more,  # type: ignore[arg-type]
    )


_ACTIVATIONS = (
    _of_one("relu", "jax.nn.relu(input)", axes=Each()),
    _of_one("relu6", "jax.nn.relu6(input)", axes=Each()),
    _of_one("elu", "jax.nn.elu(input, alpha)", "alpha", left_out={"alpha": 1.0}, axes=Each()),
    _of_one("selu", "jax.nn.selu(input)", axes=Each()),
    _of_one("celu", "F.celu(input, alpha)", "alpha", left_out={"alpha": 1.0}, axes=Each()),
    _of_one("silu", "jax.nn.silu(input)", axes=Each()),
    _of_one("mish", "jax.nn.mish(input)", axes=Each()),
    _of_one("softsign", "jax.nn.soft_sign(input)", aten="", axes=Each()),
    _of_one("logsigmoid", "jax.nn.log_sigmoid(input)", aten="aten.log_sigmoid", axes=Each()),
    _of_one("hardswish", "jax.nn.hard_swish(input)", axes=Each()),
    _of_one("tanhshrink", "F.tanhshrink(input)", aten="", axes=Each()),
    _of_one("hardsigmoid", "F.hardsigmoid(input)", axes=Each()),
    _of_one(
        "hardtanh",
        "F.hardtanh(input, min_val, max_val)",
        "min_val",
        "max_val",
        left_out={"min_val": -1.0, "max_val": 1.0},
        notes=("G3",),
        axes=Each(),
    ),
    _of_one(
        "leaky_relu",
        "F.leaky_relu(input, negative_slope)",
        "negative_slope",
        left_out={"negative_slope": 0.01},
        notes=("G3",),
        axes=Each(),
    ),
    _of_one("hardshrink", "F.hardshrink(input, lambd)", "lambd", left_out={"lambd": 0.5}, axes=Each()),
    _of_one("softshrink", "F.softshrink(input, lambd)", "lambd", left_out={"lambd": 0.5}, axes=Each()),
    _of_one(
        "softplus",
        "F.softplus(input, beta, threshold)",
        "beta",
        "threshold",
        left_out={"beta": 1.0, "threshold": 20.0},
        axes=Each(),
    ),
    _of_one(
        "rrelu",
        "F.leaky_relu(input, (lower + upper) / 2)",
        *("lower", "upper", "training=False"),
        left_out={"lower": 1 / 8, "upper": 1 / 3},
        notes=("G3",),
        axes=Each(),
    ),
    _of_one("threshold", "F.threshold(input, threshold, value)", "threshold", "value", axes=Each()),
    _of_one(
        "gelu",
        'jax.nn.gelu(input, approximate=approximate == "tanh")',
        "approximate=approximate",
        left_out={"approximate": "none"},
        notes=("W12",),
        axes=Each(),
    ),
    _of_one("glu", "jax.nn.glu(input, axis=dim)", "dim", left_out={"dim": -1}, axes=Along("dim")),
    _of_one("softmax", "jax.nn.softmax(input, axis=dim)", "dim", axes=Along("dim")),
    _of_one("log_softmax", "jax.nn.log_softmax(input, axis=dim)", "dim", axes=Along("dim")),
    *(
        _of_one(name, f"jax.nn.{name}(input.astype(dtype), axis=dim)", "dim", "dtype=dtype", axes=Along("dim"))
        for name in ("softmax", "log_softmax")
    ),
    _of_one("softmin", "jax.nn.softmax(-input, axis=dim)", "dim", aten="", axes=Along("dim")),
)


def _attention(only_if: str, jax: str, draws: Dropout | None = None) -> OperatorPair:
    return OperatorPair(
        f"{_F}scaled_dot_product_attention",
        "aten.scaled_dot_product_attention",
        f"{_F}scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale,"
        " enable_gqa=enable_gqa)",
        jax,
        only_if=f"dropout_p {'!=' if draws else '=='} 0{only_if}",
        left_out={"attn_mask": None, "dropout_p": 0.0, "is_causal": False, "scale": None, "enable_gqa": False},
        notes=("W16", "G6", *(("W25",) if draws else ())),
        draws=draws,
    )


# jax.nn.dot_product_attention has the heads on the last axis but one, and rounds float64 to float32.
_SCORES = "query @ key.swapaxes(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)"

_LINEAR = Product(("weight",), rows="input")
_PLAIN = " and attn_mask is None and not (is_causal or enable_gqa)"
_OPTIONS = "query, key, value, attn_mask, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa"

_LAST = "tuple(range(-len(normalized_shape), 0))"
_EMBEDDING = {"indices": "input", "sparse": ""}

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
        axes=_LINEAR,
    ),
    OperatorPair(
        f"{_F}linear",
        "aten.linear",
        f"{_F}linear(input, weight, bias)",
        "input @ weight.T",
        only_if="bias is None",
        left_out={"bias": None},
        notes=("W1", "G6"),
        axes=_LINEAR,
    ),
    OperatorPair(
        f"{_F}embedding",
        "aten.embedding",
        f"{_F}embedding(input, weight)",
        "jnp.take(weight, input, axis=0)",
        schema=_EMBEDDING,
        notes=("W17", "J3"),
    ),
    OperatorPair(
        f"{_F}embedding",
        "aten.embedding",
        f"{_F}embedding(input, weight, padding_idx)",
        "jnp.take(weight.at[padding_idx].set(lax.stop_gradient(weight[padding_idx])), input, axis=0)",
        only_if="padding_idx is not None",
        schema=_EMBEDDING,
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
        "input / jnp.maximum(F.vector_norm(input, ord=p, dim=dim, keepdim=True), eps)",
        *("p", "dim", "eps"),
        aten="",
        left_out={"p": 2.0, "dim": 1, "eps": 1e-12},
        notes=("G3",),
        axes=Along("dim"),
    ),
    _of_one(
        "layer_norm",
        "F.layer_norm(input, normalized_shape, weight, bias, eps)",
        *("normalized_shape", "weight", "bias", "eps"),
        left_out={"weight": None, "bias": None, "eps": 1e-5},
        schema={"cudnn_enable": ""},
        notes=("W10", "W11"),
    ),
    OperatorPair(
        "torch.native_layer_norm",
        "aten.native_layer_norm",
        "torch.native_layer_norm(input, normalized_shape, weight, bias, eps)",
        "(F.layer_norm(input, normalized_shape, weight, bias, eps),"
        f" *map(lax.stop_gradient, (input.mean({_LAST}, keepdims=True),"
        f" lax.rsqrt(input.var({_LAST}, keepdims=True) + eps))))",
        notes=("W10", "W11"),
    ),
    *(
        _of_one(
            "rms_norm",
            f"input * lax.rsqrt(jnp.square(input).mean(axis={_LAST}, keepdims=True)"
            f" + (jnp.finfo(input.dtype).eps if eps is None else eps)){' * weight' * weight}",
            *("normalized_shape", "weight", "eps"),
            only_if=f"weight is {'not ' * weight}None",
            left_out={"weight": None, "eps": None},
            notes=("W10",),
        )
        for weight in (True, False)
    ),
    OperatorPair(
        f"{_F}cosine_similarity",
        "aten.cosine_similarity",
        f"{_F}cosine_similarity(x1, x2, dim, eps)",
        "F.cosine_similarity(x1, x2, dim, eps)",
        axes=Over("dim"),
        only_if="x1.shape == x2.shape",
        left_out={"dim": 1, "eps": 1e-8},
    ),
    # The axis refers to the broadcast shape.
    OperatorPair(
        f"{_F}cosine_similarity",
        "aten.cosine_similarity",
        f"{_F}cosine_similarity(x1, x2, dim, eps)",
        "F.cosine_similarity(x1, x2, dim, eps)",
        left_out={"dim": 1, "eps": 1e-8},
    ),
    OperatorPair(
        f"{_F}pdist",
        "aten.pdist",
        f"{_F}pdist(input, p)",
        "F.pairwise_distance(input[np.triu_indices(input.shape[0], 1)[0]],"
        " input[np.triu_indices(input.shape[0], 1)[1]], p, 0)",
        left_out={"p": 2.0},
        notes=("G3",),
    ),
    OperatorPair(
        f"{_F}pairwise_distance",
        "aten.pairwise_distance",
        f"{_F}pairwise_distance(x1, x2, p, eps, keepdim)",
        "F.pairwise_distance(x1, x2, p, eps, keepdim)",
        left_out={"p": 2.0, "eps": 1e-6, "keepdim": False},
    ),
    _attention(_PLAIN, f"jax.nn.softmax({_SCORES}, axis=-1) @ value"),
    _attention("", f"F.scaled_dot_product_attention({_OPTIONS})"),
    _attention(_PLAIN, f"dropout(jax.nn.softmax({_SCORES}, axis=-1)) @ value", Dropout("dropout_p")),
    _attention("", f"F.scaled_dot_product_attention({_OPTIONS}, dropout=dropout)", Dropout("dropout_p")),
)
