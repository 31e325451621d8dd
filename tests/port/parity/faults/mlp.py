"""A perceptron: LayerNorm, GELU, a square layer with a residual connection, dropout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import torch
from flax import nnx
from torch import nn

from .fault import Fault, Twin, at, drawn, fresh, rounded, swapped, through

WIDTH = 8


class Perceptron(nn.Module):
    """(N, 5) → (N, 3)."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.norm, self.fc2 = nn.Linear(5, WIDTH), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.act, self.drop, self.mix, self.fc3 = nn.GELU(), nn.Dropout(0.3), nn.Linear(WIDTH, WIDTH), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(self.act(self.fc1(x)))
        h = h + torch.relu(self.fc2(h))
        h = self.drop(torch.tanh(self.mix(h)))
        return torch.softmax(self.fc3(h * 0.7), -1)


class Unbiased(nnx.Linear):
    """A linear layer that forgets its bias."""

    def __call__(self, inputs: jax.Array, out_sharding: Any = None) -> jax.Array:
        return inputs @ self.kernel[...]


class Transposed(nnx.Linear):
    """A linear layer with torch's order of the kernel in mind."""

    def __call__(self, inputs: jax.Array, out_sharding: Any = None) -> jax.Array:
        return inputs @ self.kernel[...].T + self.bias[...]


class ByHand(nnx.LayerNorm):
    """A LayerNorm of its own formula."""

    correction, outside, subtracts = 0, False, True

    def __call__(self, x: jax.Array, *, mask: jax.Array | None = None) -> jax.Array:
        centred = x - x.mean(-1, keepdims=True) if self.subtracts else x
        variance = (centred**2).sum(-1, keepdims=True) / (x.shape[-1] - self.correction)
        epsilon = self.epsilon
        centred /= jnp.sqrt(variance) + epsilon if self.outside else jnp.sqrt(variance + epsilon)
        return centred * self.scale[...] + self.bias[...]


class UnbiasedVariance(ByHand):
    correction = 1


class OutsideTheRoot(ByHand):
    outside = True


class WithoutMean(ByHand):
    subtracts = False


class Float16Products(nnx.Linear):
    def __call__(self, inputs: jax.Array, out_sharding: Any = None) -> jax.Array:
        product = inputs.astype(jnp.float16) @ self.kernel[...].astype(jnp.float16)
        return product.astype(inputs.dtype) + self.bias[...]


class TF32Products(nnx.Linear):
    def __call__(self, inputs: jax.Array, out_sharding: Any = None) -> jax.Array:
        return rounded(10)(inputs) @ rounded(10)(self.kernel[...]) + self.bias[...]


def exact_gelu(x: jax.Array) -> jax.Array:
    return jax.nn.gelu(x, approximate=False)


class FlaxPerceptron(nnx.Module):
    """The same. Its options are where it may go wrong."""

    def __init__(
        self,
        *,
        act: Callable[[jax.Array], jax.Array] = exact_gelu,
        inner: Callable[[jax.Array], jax.Array] = jax.nn.relu,
        last: Callable[[jax.Array], jax.Array] = jnp.tanh,
        epsilon: float = 1e-5,
        norm: type[nnx.LayerNorm] = nnx.LayerNorm,
        fast: bool = False,
        mix: type[nnx.Linear] = nnx.Linear,
        residual: bool = True,
        scale: tuple[float, ...] = (0.7,),
        deterministic: bool | None = None,
        cast: Callable[[jax.Array], jax.Array] = lambda x: x,
        axis: int = -1,
    ) -> None:
        rngs = nnx.Rngs(0)
        self.fc1, self.fc2 = nnx.Linear(5, WIDTH, rngs=rngs), nnx.Linear(WIDTH, WIDTH, rngs=rngs)
        self.norm = norm(WIDTH, epsilon=epsilon, use_fast_variance=fast, rngs=rngs)
        self.mix, self.fc3 = mix(WIDTH, WIDTH, rngs=rngs), nnx.Linear(WIDTH, 3, rngs=rngs)
        self.drop = nnx.Dropout(0.3, rngs=rngs)
        self.act, self.inner, self.last, self.residual, self.scale, self.cast = act, inner, last, residual, scale, cast
        self.deterministic_, self.axis = deterministic, axis

    def __call__(self, x: jax.Array) -> jax.Array:
        h = self.norm(self.act(self.fc1(x)))
        h = self.residual * h + self.inner(self.fc2(self.cast(h)))
        h = self.drop(self.last(self.mix(h)), deterministic=self.deterministic_)
        for factor in self.scale:
            h = h * factor
        return jax.nn.softmax(self.fc3(h), self.axis)


MLP = Twin("MLP", Perceptron, FlaxPerceptron, lambda: 2 * drawn(6, 5))


FAULTS = (
    Fault("tanh GELU", MLP, "norm", ("tanh-gelu",), {"act": jax.nn.gelu}),
    Fault("ReLU for GELU", MLP, "norm", ("another-activation",), {"act": jax.nn.relu}),
    Fault("SiLU for ReLU", MLP, "mix", ("another-activation",), {"inner": jax.nn.silu}),
    Fault("activation missing", MLP, "mix", ("activation-missing",), {"inner": lambda x: x}),
    Fault("epsilon", MLP, "norm", ("epsilon",), {"epsilon": 1e-6}),
    Fault("epsilon that is no default", MLP, "norm", ("epsilon",), {"epsilon": 3e-4}),
    Fault("unbiased variance in LayerNorm", MLP, "norm", ("unbiased-variance",), {"norm": UnbiasedVariance}),
    Fault("epsilon outside the root", MLP, "norm", ("epsilon-outside-root",), {"norm": OutsideTheRoot}),
    Fault("RMSNorm for LayerNorm", MLP, "norm", ("mean-not-subtracted",), {"norm": WithoutMean}),
    Fault("residual missing", MLP, "mix", ("addition-missing",), {"residual": False}),
    Fault("scale missing", MLP, "fc3", ("scale-missing", "scale"), {"scale": ()}),
    Fault("scale twice", MLP, "fc3", ("scale-twice", "scale"), {"scale": (0.7, 0.7)}),
    Fault("bias missing", MLP, "mix", ("bias-missing",), {"mix": Unbiased}),
    Fault("kernel transposed", MLP, "mix", ("kernel-transposed",), {"mix": Transposed}),
    Fault(
        "kernel transposed as it is loaded", MLP, "fc2", ("kernel-transposed",), change=at("fc2.kernel", lambda k: k.T)
    ),
    Fault("weights not loaded", MLP, "fc2", ("weights-not-loaded",), change=fresh("fc2.kernel")),
    Fault("bias not loaded", MLP, "fc2", ("weights-not-loaded",), change=at("fc2.bias", lambda b: 0 * b)),
    Fault(
        "weights of the neighbour",
        MLP,
        "fc2",
        ("weights-of-another-layer",),
        change=swapped("fc2.kernel", "mix.kernel"),
    ),
    Fault(
        "weights rounded to bfloat16",
        MLP,
        "fc2",
        ("weights-rounded",),
        change=at("fc2.kernel", lambda k: k.astype(jnp.bfloat16)),
    ),
    Fault("dropout left on", MLP, "drop", ("dropout-left-on",), {"deterministic": False}),
    Fault("float16 products", MLP, "mix", ("narrow-float16",), {"mix": Float16Products}),
    Fault("TF32 products", MLP, "mix", ("tf32-products",), {"mix": TF32Products}),
    Fault("a cast to bfloat16", MLP, "fc2", ("narrow-bfloat16",), {"cast": through(jnp.bfloat16)}),
    Fault("a cast to float32", MLP, "fc2", ("narrow-float32",), {"cast": through(jnp.float32)}),
    Fault("softmax along another axis", MLP, "", ("softmax-axis",), {"axis": 0}),
    Fault(
        "gradient stopped", MLP, "fc1", ("gradient-stopped",), {"act": lambda x: jax.lax.stop_gradient(exact_gelu(x))}
    ),
)
