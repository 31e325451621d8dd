"""torchvision's own layers ⇄ Flax's, where their weights or their axes are not those of a module of one's own.

``LayerNorm2d``, ConvNeXt's, is a torch.nn.LayerNorm over the channels of (N, C, H, W). With the channels last it is a
layer norm like any other. ``StochasticDepth`` draws one number a sample, or one a batch.
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
