"""Activations: torch.nn class ⇄ jax.nn function, or port.nn.functional's where gradients at kinks differ.

Softmax, LogSoftmax, Softmin and GLU take torch's axis; a channels-last model passes another one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from port.pairs.ops.axes import Along, Axes, Each
from port.pairs.pair import LayerPair

_PORT = "port.nn.functional."
_EACH = Each()


def _plain(layer: str, function: str, *names: str, axes: Axes = _EACH, notes: tuple[str, ...] = ()) -> LayerPair:
    """Pair a module with a function whose arguments are the module's attributes ``names``."""

    def arguments(module: Any) -> dict[str, Any]:
        return {name: getattr(module, name) for name in names}

    return LayerPair(torch=f"torch.nn.{layer}", flax=function, arguments=arguments, axes=axes, notes=notes)


def _gelu_arguments(module: Any) -> dict[str, Any]:
    return {"approximate": module.approximate == "tanh"}  # not bool(): "none" is a true string


def _slopes(module: Any) -> dict[str, Any]:
    return {"lower": module.lower, "upper": module.upper}


def _axis_of(module: Any) -> dict[str, Any]:
    return {"axis": module.dim}


def _has_an_axis(module: Any) -> bool:
    # None depends on the input's rank; and torch accepts 0 for a 0-d tensor, which has no axis 0.
    return module.dim not in (None, 0)


def _softmax(layer: str, name: str) -> tuple[LayerPair, LayerPair]:
    torch, by_name = f"torch.nn.{layer}", f"jax.nn.{name}"
    return (
        LayerPair(torch=torch, flax=by_name, fits_torch=_has_an_axis, arguments=_axis_of, axes=Along("axis")),
        _plain(layer, _PORT + name, "dim", axes=Along("dim")),
    )


def _alpha_is_float32(module: Any) -> bool:
    return bool(struct.unpack("f", struct.pack("f", module.alpha))[0] == module.alpha)


def _celu(flax: str, fits: Callable[[Any], bool]) -> LayerPair:
    return LayerPair(
        torch="torch.nn.CELU",
        flax=flax,
        fits_torch=fits,
        arguments=lambda module: {"alpha": module.alpha},
        axes=_EACH,
    )


PAIRS: tuple[LayerPair, ...] = (
    _plain("ReLU", "jax.nn.relu"),
    _plain("ReLU6", "jax.nn.relu6"),
    _plain("ELU", "jax.nn.elu", "alpha"),
    _celu("jax.nn.celu", _alpha_is_float32),
    _celu(_PORT + "celu", lambda module: True),
    _plain("SELU", "jax.nn.selu"),
    _plain("SiLU", "jax.nn.silu"),
    _plain("Mish", "jax.nn.mish"),
    _plain("Sigmoid", "jax.nn.sigmoid"),
    _plain("LogSigmoid", "jax.nn.log_sigmoid"),
    _plain("Tanh", "jax.numpy.tanh"),
    _plain("Softsign", "jax.nn.soft_sign"),
    _plain("Hardswish", "jax.nn.hard_swish"),
    LayerPair(torch="torch.nn.GELU", flax="jax.nn.gelu", arguments=_gelu_arguments, axes=_EACH, notes=("W12",)),
    LayerPair(torch="torch.nn.GLU", flax="jax.nn.glu", arguments=_axis_of, axes=Along("axis")),
    *_softmax("Softmax", "softmax"),
    *_softmax("LogSoftmax", "log_softmax"),
    LayerPair(torch="torch.nn.Softmax2d", flax="jax.nn.softmax", arguments=lambda _: {"axis": -1}, channels=-3),
    _plain("Softmin", _PORT + "softmin", "dim", axes=Along("dim")),
    _plain("Softplus", _PORT + "softplus", "beta", "threshold"),
    _plain("LeakyReLU", _PORT + "leaky_relu", "negative_slope", notes=("G3",)),
    _plain("Hardtanh", _PORT + "hardtanh", "min_val", "max_val", notes=("G3",)),
    _plain("Hardsigmoid", _PORT + "hardsigmoid"),
    _plain("Hardshrink", _PORT + "hardshrink", "lambd"),
    _plain("Softshrink", _PORT + "softshrink", "lambd"),
    _plain("Tanhshrink", _PORT + "tanhshrink"),
    _plain("Threshold", _PORT + "threshold", "threshold", "value"),
    LayerPair(torch="torch.nn.RReLU", flax="port.nn.RReLU", arguments=_slopes, axes=_EACH, notes=("W25",)),
)
