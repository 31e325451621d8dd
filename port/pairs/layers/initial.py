"""torch's initial values as the initializers that a Flax layer is given."""

from __future__ import annotations

from port.pairs.expression import Expression


def torch_initializers(fan_in: int) -> dict[str, Expression]:
    """Those of a linear layer or a convolution: both uniform, the bias by the inputs of one output."""
    return {
        "kernel_init": Expression("port.nn.torch_kernel"),
        "bias_init": Expression("port.nn.torch_bias", (fan_in,)),
    }
