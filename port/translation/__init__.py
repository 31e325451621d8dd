"""A torch.nn.Module as the Flax NNX source that a person would have written, with its weights, mapping and proof."""

from port.translation.artifact.metadata import draw_layouts
from port.translation.result import Translation
from port.translation.translating import translate

__all__ = ["Translation", "draw_layouts", "translate"]
