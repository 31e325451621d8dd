"""torch's initial values as initializers of a Flax layer."""

from __future__ import annotations

from port.pairs.expression import Expression


def torch_initializers(fan_in: int) -> dict[str, Expression]:
    """Initializers of a linear layer or convolution: both uniform, bounded by the fan-in."""
    return {
        "kernel_init": Expression("port.nn.torch_kernel"),
        "bias_init": Expression("port.nn.torch_bias", (fan_in,)),
    }
