"""torchvision's own layers ⇄ Flax's.

ConvNeXt's ``LayerNorm2d`` is a torch.nn.LayerNorm over the channels of (N, C, H, W); with channels last it is a plain
layer norm. ``StochasticDepth`` draws one number per sample, or per batch.
"""

from __future__ import annotations

from dataclasses import replace

from port.pairs.layers import norm
from port.pairs.ops.axes import First
from port.pairs.pair import LayerPair

PAIRS: tuple[LayerPair, ...] = (
    *(
        replace(pair, torch="torchvision.models.convnext.LayerNorm2d", channels=1)
        for pair in norm.PAIRS
        if pair.torch == "torch.nn.LayerNorm"
    ),
    LayerPair(
        torch="torchvision.ops.StochasticDepth",
        flax="port.nn.StochasticDepth",
        arguments=lambda module: {"rate": module.p, "mode": module.mode},
        axes=First(),
        notes=("W25",),
    ),
)
