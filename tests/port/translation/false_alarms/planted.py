"""Faults beside quantities that are zero in exact arithmetic, and in these themselves: the proof must see each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn

import port
from port.translation import Translation
from port.translation.verify import Proof, prove

from .bases import BASES


@dataclass(frozen=True)
class Fault:
    """What makes a right translation a wrong one.

    Attributes:
        base: the right pair's name.
        before: a piece of the source that stands there once; or the name of a value.
        after: what it becomes: source, or a function of the value.
    """

    base: str
    before: str
    after: str | Callable[[np.ndarray], np.ndarray]


def _without_value(expression: str) -> str:
    """Source of a zero whose gradient by an expression is 1e-6."""
    return f"1e-6 * ({expression} - jax.lax.stop_gradient({expression}))"


def _slightly_off(value: np.ndarray) -> np.ndarray:
    return value * (1 + 1e-5 * np.arange(value.size).reshape(value.shape) / value.size)


_CALL = "return self.consumer(self.normaliser(self.producer(x)))"
_CALL_BEHIND = "return self.consumer(self.normaliser(self.before(self.producer(x))))"
_NORMS = "return self.second(self.conv(self.first(x)))"
_IN_TRAINING = "jnp.where(self.second.use_running_average, 0.0, 1e-5)"

FAULTS = {
    # The mean behind a normalisation.
    "LayerNorm: mean not subtracted": Fault("mean of LayerNorm", "(x - mean)", "x"),
    "LayerNorm: half of the mean subtracted": Fault("mean of LayerNorm", "(x - mean)", "(x - 0.5 * mean)"),
    "LayerNorm: mean 1e-6 off": Fault("mean of LayerNorm", "(x - mean)", "(x - mean + 1e-6)"),
    "LayerNorm: scalar's gradient 1e-6": Fault(
        "mean of LayerNorm", _CALL_BEHIND, f"{_CALL_BEHIND} + {_without_value('self.before.shift[...]')}"
    ),
    "LayerNorm: epsilon": Fault("mean beside LayerNorm", "epsilon=1e-05", "epsilon=1e-06"),
    "LayerNorm: mean beside it 1e-6": Fault(
        "mean beside LayerNorm", "jnp.mean(y, axis=-1)", "jnp.mean(y, axis=-1) + 1e-6"
    ),
    "GroupNorm: forgotten": Fault("mean of GroupNorm", _CALL, "return self.consumer(self.producer(x))"),
    "GroupNorm: fewer groups": Fault("mean of GroupNorm", "num_groups=6", "num_groups=3"),
    "GroupNorm: mean 1e-6": Fault("mean of GroupNorm", "jnp.mean(y, axis=(1, 2))", "jnp.mean(y, axis=(1, 2)) + 1e-6"),
    "GroupNorm: bias 1e-6": Fault("mean of GroupNorm", "normaliser.bias", lambda bias: bias + 1e-6),
    "two groups: three": Fault("mean of two groups", "num_groups=2", "num_groups=3"),
    "BatchNorm: statistics used in training": Fault(
        "mean of BatchNorm", _CALL_BEHIND, _CALL_BEHIND.replace("(x))))", "(x)), use_running_average=True))")
    ),
    "BatchNorm: bias's gradient 1e-6": Fault(
        "mean of BatchNorm", _CALL_BEHIND, f"{_CALL_BEHIND} + {_without_value('self.before.bias[...].sum()')}"
    ),
    "InstanceNorm: epsilon": Fault("variance of InstanceNorm", "spatial=2", "spatial=2, eps=1e-6"),
    "InstanceNorm: unbiased variance": Fault(
        "variance of InstanceNorm", "jnp.var(y, axis=(1, 2))", "jnp.var(y, axis=(1, 2), ddof=1)"
    ),
    "RMSNorm: epsilon": Fault("squares of RMSNorm", "nnx.RMSNorm(8", "nnx.RMSNorm(8, epsilon=2e-6"),
    "RMSNorm: gain's gradient the other way round": Fault(
        "squares of RMSNorm", "x * self.gain[...]", "x * (2 * jax.lax.stop_gradient(self.gain[...]) - self.gain[...])"
    ),
    "RMSNorm: gain's gradient cut": Fault(
        "squares of RMSNorm", "x * self.gain[...]", "x * jax.lax.stop_gradient(self.gain[...])"
    ),
    # Sums that are one.
    "softmax: over another axis": Fault("sum of softmax", "nnx.softmax(x)", "nnx.softmax(x, axis=1)"),
    "softmax: sum 1e-6": Fault("sum of softmax", "- 1", "- 0.999999"),
    "softmax: scalar's gradient 1e-6": Fault(
        "sum of softmax", _CALL_BEHIND, f"{_CALL_BEHIND} + {_without_value('self.before.shift[...]')}"
    ),
    "normalize: norm 1e-6": Fault("norm of normalize", "- 1", "- 0.999999"),
    "normalize: forgotten": Fault("norm of normalize", _CALL, "return self.consumer(self.producer(x))"),
    # Differences that are zero.
    "variance of a constant: of all": Fault("variance of a constant", "[:, :, :1]", "[:, :, :]"),
    "cross-covariance: mean of the square": Fault("cross-covariance", "(y - mean) * mean", "(y - mean) * y"),
    "cross-covariance: 1e-6": Fault("cross-covariance", "(y - mean) * mean", "(y - 0.999999 * mean) * mean"),
    "equal branches: one forgotten": Fault("equal branches", " - y * self.another[...]", ""),
    "equal branches: one 1e-6 off": Fault(
        "equal branches", " - y * self.another[...]", " - 1.000001 * y * self.another[...]"
    ),
    "logsumexp: shift 1e-6 off": Fault("logsumexp difference", "y + self.shift", "y + self.shift + 1e-6"),
    "skew product: 1e-6 off": Fault("skew product", "jnp.matrix_transpose(", "1.000001 * jnp.matrix_transpose("),
    "skew product: half of its gradient": Fault(
        "skew product", "jnp.sum(y @ (", "jnp.sum(jax.lax.stop_gradient(y) @ ("
    ),
    "orthogonal rest: basis 1e-5 off": Fault("orthogonal rest", "consumer.basis", _slightly_off),
    "own scale: gradient 1e-6": Fault(
        "own scale",
        "return self.consumer(self.producer(x))",
        f"return self.consumer(self.producer(x)) + {_without_value('self.consumer.scale[...]')}",
    ),
    "sine and cosine: 1e-6 off": Fault("sine and cosine", "jnp.cos(y)", "jnp.cos(1.000001 * y)"),
    "Fourier: 1e-6 off": Fault("Fourier round trip", "jnp.fft.fft(y", "1.000001 * jnp.fft.fft(y"),
    "Fourier: gradient cut": Fault("Fourier round trip", "jnp.fft.fft(y", "jnp.fft.fft(jax.lax.stop_gradient(y)"),
    "Fourier: bias's gradient 1e-6": Fault(
        "Fourier round trip", _CALL_BEHIND, f"{_CALL_BEHIND} + {_without_value('self.before.bias[...].sum()')}"
    ),
    # Saturation.
    "GELU at -4 by tanh": Fault("GELU at -4", "approximate=False", "approximate=True"),
    "GELU at -6 by tanh": Fault("GELU at -6", "approximate=False", "approximate=True"),
    "GELU at -6: nothing": Fault("GELU at -6", "nnx.gelu(y + self.shift, approximate=False)", "0.0 * y"),
    "sigmoid at 12: gradient cut": Fault("sigmoid at 12", "y + self.shift", "jax.lax.stop_gradient(y) + self.shift"),
    "sigmoid at 20: gradient the other way round": Fault(
        "sigmoid at 20", "y + self.shift", "2 * jax.lax.stop_gradient(y) - y + self.shift"
    ),
    "softplus at -12 as ReLU": Fault(
        "softplus at -12", "F.softplus(y + self.shift, 1, 20)", "nnx.relu(y + self.shift)"
    ),
    "ELU at -12: gradient the other way round": Fault(
        "ELU at -12", "y + self.shift", "2 * jax.lax.stop_gradient(y) - y + self.shift"
    ),
    "ELU at -12: 1e-6 off": Fault("ELU at -12", "y + self.shift", "1.000001 * y + self.shift"),
    "tanh at 6: gradient the other way round": Fault(
        "tanh at 6", "y + self.shift", "2 * jax.lax.stop_gradient(y) - y + self.shift"
    ),
    "erf at 3 as tanh": Fault("erf at 3", "jax.scipy.special.erf(", "jnp.tanh("),
    # Running statistics.
    "momentum reversed": Fault("BatchNorms", "BatchNorm(9, ", "BatchNorm(9, momentum=0.9, "),
    "momentum reversed, fresh": Fault("fresh BatchNorms", "BatchNorm(9, ", "BatchNorm(9, momentum=0.9, "),
    "running mean of another tensor": Fault(
        "fresh BatchNorms",
        _NORMS,
        "y = self.conv(self.first(x)); return self.second("
        "jnp.where(self.second.use_running_average, y, y + jnp.mean(self.conv(x), axis=(0, 1, 2))))",
    ),
    "running mean 1e-6": Fault(
        "fresh BatchNorms", _NORMS, f"return self.second(self.conv(self.first(x)) + {_IN_TRAINING})"
    ),
    "running mean 1e-6 beside its old value": Fault(
        "BatchNorms", _NORMS, f"return self.second(self.conv(self.first(x)) + {_IN_TRAINING})"
    ),
    "bias behind the norm dropped": Fault("BatchNorms", "second.bias", np.zeros_like),
    "epsilon of BatchNorm": Fault("BatchNorms", "BatchNorm(9, ", "BatchNorm(9, eps=1e-6, "),
    "LeViT: running mean 1e-6": Fault(
        "LeViT",
        "self.qkv(x).reshape",
        "self.qkv(x + jnp.where(self.qkv.norm.use_running_average, 0.0, 1e-5)).reshape",
    ),
    "LeViT: running mean of another tensor": Fault(
        "LeViT",
        "self.qkv(x).reshape",
        "self.qkv(x + jnp.where(self.qkv.norm.use_running_average, 0.0, jnp.mean(x[0, 0]))).reshape",
    ),
    "mean behind InstanceNorm 1e-6": Fault(
        "BatchNorm of a mean", "axis=(1, 2))", "axis=(1, 2)) + 1e-6 * jnp.max(x, axis=(1, 2))"
    ),
    # Gradients that are zero.
    "keys' bias: gradient 1e-6": Fault(
        "keys' bias", "self.split(self.value(x))", f"self.split(self.value(x) + {_without_value('self.key.bias[...]')})"
    ),
    "keys' bias on the values": Fault(
        "keys' bias", "self.split(self.value(x))", "self.split(self.value(x) + self.key.bias[...])"
    ),
    "scalar: gradient 1e-6": Fault(
        "scalar alone",
        "return self.norm(x + self.shift[...])",
        f"return self.norm(x + self.shift[...]) + {_without_value('self.shift[...]')}",
    ),
    "scalar behind the norm": Fault("scalar alone", "self.norm(x + self.shift[...])", "self.norm(x) + self.shift[...]"),
    "gain: gradient 1e-6": Fault(
        "gain alone", "value = x * self.gain[...]", f"value = x * self.gain[...] + {_without_value('self.gain[...]')}"
    ),
    "temperature: scores that are not equal": Fault(
        "temperature",
        "nnx.softmax(scores * self.temperature[...])",
        "nnx.softmax((scores + 1e-6 * x[..., 0]) * self.temperature[...])",
    ),
    "contrastive loss: temperature": Fault("contrastive loss", "/ 0.01", "/ 0.0101"),
    "self-correlation: samples less one": Fault("self-correlation", "/ z.shape[0]", "/ (z.shape[0] - 1)"),
    "self-correlation: 1e-6": Fault("self-correlation", "- 1", "- 0.999999"),
    "teacher 1e-5 off": Fault("student and teacher", "teacher.kernel", _slightly_off),
    "finite difference: its step": Fault("finite difference", "/ 1e-06", "/ 1.001e-06"),
    "rotation: angle of the cosine 1e-6 off": Fault("rotated vector", "jnp.cos(", "jnp.cos(1e-6 + "),
    "post-norm block: gate behind": Fault("post-norm block", "+ self.gate[...]), axis", ") + self.gate[...], axis"),
    # What torch cannot differentiate still has its values.
    "exp: 1e-6": Fault("exp changed in place", "(y + 1)", "(y + 1.000001)"),
    "overwritten with 1e-6": Fault("sigmoid overwritten", ".set(0.0)", ".set(1e-6)"),
    "state: momentum reversed": Fault("state moved on", "* 0.9 +", "* 0.1 +"),
    "ReLU: 1e-6": Fault("in-place ReLU", "y - 0.5", "y - 0.500001"),
}


@cache
def right(base: str) -> tuple[nn.Module, Tensor, Translation]:
    """A right module, its input, and its translation, not yet compared."""
    chosen = BASES[base]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = chosen.build()
        x = torch.randn(chosen.shape) + 0.2
    return module, x, port.translate(module, x, static=True, check=False)


def planted(fault: Fault) -> Translation:
    """The translation with a fault."""
    translation = right(fault.base)[2]
    if callable(fault.after):
        values = dict(translation.values)
        values[fault.before] = np.array(fault.after(values[fault.before]))
        return replace(translation, values=values)
    assert translation.source.count(fault.before) == 1, f"{fault.before} in {translation.source}"
    return replace(translation, source=translation.source.replace(fault.before, fault.after))


def proof_of(base: str, translation: Translation) -> Proof:
    """What the proof says of a translation of a right module."""
    module, x, _ = right(base)
    return prove(module, translation, (x,), {})
