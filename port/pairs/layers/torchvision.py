"""torchvision's own layers ⇄ Flax's, where their weights or their axes are not those of a module of one's own.

``LayerNorm2d``, ConvNeXt's, is a torch.nn.LayerNorm over the channels of (N, C, H, W). With the channels last it is a
layer norm like any other.
"""

from __future__ import annotations

from dataclasses import replace

from port.pairs.layers import norm

PAIRS = tuple(
    replace(pair, torch="torchvision.models.convnext.LayerNorm2d", channels=1)
    for pair in norm.PAIRS
    if pair.torch == "torch.nn.LayerNorm"
)
