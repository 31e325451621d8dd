"""torch.nn.Conv1d, Conv2d, Conv3d ⇄ flax.nnx.Conv."""

from typing import Any

from port.mapping import Permute
from port.pairs.pair import LayerPair, ParamPair


def _convolution(spatial: int) -> LayerPair:
    def is_twin(module: Any) -> bool:
        # What the module was told, not what its array looks like: nnx takes an int for one spatial axis.
        kernel_size = module.kernel_size
        return (1 if isinstance(kernel_size, int) else len(kernel_size)) == spatial

    # (out, in/groups, *window) → (*window, in/groups, out); grouped convolutions the same.
    window = tuple(range(2, 2 + spatial))
    return LayerPair(
        torch=f"torch.nn.Conv{spatial}d",
        flax="flax.nnx.Conv",
        params=(ParamPair("weight", "kernel", (Permute((*window, 1, 0)),)), ParamPair("bias", "bias")),
        is_twin=is_twin,
        notes=("W2", "W3", "W4", "W24"),
    )


PAIRS = tuple(_convolution(spatial) for spatial in (1, 2, 3))
