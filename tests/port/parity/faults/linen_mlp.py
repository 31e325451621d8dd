"""The perceptron's twin in Linen."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import linen

from .fault import Fault, LinenTwin, beneath, drawn, fresh_values, through
from .mlp import WIDTH, Perceptron, exact_gelu


class Unbiased(linen.Dense):
    """A linear layer that forgets its bias."""

    def __call__(self, inputs: jax.Array) -> jax.Array:
        return super().__call__(inputs) - self.get_variable("params", "bias")


class Transposed(linen.Dense):
    """A linear layer with torch's order of the kernel in mind."""

    def __call__(self, inputs: jax.Array) -> jax.Array:
        right = super().__call__(inputs)
        kernel = self.get_variable("params", "kernel")
        return right - inputs @ kernel + inputs @ kernel.T


class LinenPerceptron(linen.Module):
    """The same. Its fields are where it may go wrong."""

    act: Callable[[jax.Array], jax.Array] = exact_gelu
    inner: Callable[[jax.Array], jax.Array] = jax.nn.relu
    epsilon: float = 1e-5
    fast: bool = False
    mix: type[linen.Dense] = linen.Dense
    residual: bool = True
    scale: tuple[float, ...] = (0.7,)
    cast: Callable[[jax.Array], jax.Array] = lambda x: x
    axis: int = -1

    @linen.compact
    def __call__(self, x: jax.Array, deterministic: bool = True) -> jax.Array:
        h = self.act(linen.Dense(WIDTH, name="fc1")(x))
        h = linen.LayerNorm(epsilon=self.epsilon, use_fast_variance=self.fast, name="norm")(h)
        h = self.residual * h + self.inner(linen.Dense(WIDTH, name="fc2")(self.cast(h)))
        h = jnp.tanh(self.mix(WIDTH, name="mix")(h))
        for factor in self.scale:
            h = h * factor
        return jax.nn.softmax(linen.Dense(3, name="fc3")(h), self.axis)


MLP = LinenTwin("MLP, Linen", Perceptron, LinenPerceptron, lambda: 2 * drawn(6, 5))


FAULTS = (
    Fault("tanh GELU", MLP, "norm", ("tanh-gelu",), {"act": jax.nn.gelu}),
    Fault("activation missing", MLP, "mix", ("activation-missing",), {"inner": lambda x: x}),
    Fault("SiLU for ReLU", MLP, "mix", ("another-activation",), {"inner": jax.nn.silu}),
    Fault("epsilon", MLP, "norm", ("epsilon",), {"epsilon": 1e-6}),
    Fault("residual missing", MLP, "mix", ("addition-missing",), {"residual": False}),
    Fault("scale twice", MLP, "fc3", ("scale-twice", "scale"), {"scale": (0.7, 0.7)}),
    Fault("bias missing", MLP, "mix", ("bias-missing",), {"mix": Unbiased}),
    Fault("kernel transposed", MLP, "mix", ("kernel-transposed",), {"mix": Transposed}),
    Fault(
        "kernel transposed as it is loaded",
        MLP,
        "fc2",
        ("kernel-transposed",),
        change=beneath("params.fc2.kernel", lambda k: k.T),
    ),
    Fault("weights not loaded", MLP, "fc2", ("weights-not-loaded",), change=beneath("params.fc2.kernel", fresh_values)),
    Fault(
        "weights rounded to bfloat16",
        MLP,
        "fc2",
        ("weights-rounded",),
        change=beneath("params.fc2.kernel", lambda k: k.astype(jnp.bfloat16).astype(k.dtype)),
    ),
    Fault("a cast to bfloat16", MLP, "fc2", ("narrow-bfloat16",), {"cast": through(jnp.bfloat16)}),
    Fault("softmax along another axis", MLP, "", ("softmax-axis",), {"axis": 0}),
    Fault(
        "gradient stopped", MLP, "fc1", ("gradient-stopped",), {"act": lambda x: jax.lax.stop_gradient(exact_gelu(x))}
    ),
)
