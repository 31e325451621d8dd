"""Translate a torch.nn.Module to readable Flax NNX source, with its weights, mapping and proof."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from port.extras import EXTRAS, naming_extras, require

if TYPE_CHECKING:
    from port.translation.artifact.metadata import draw_layouts
    from port.translation.result import Translation
    from port.translation.translating import translate

# Imported lazily: `draw_layouts` is also used on torch's side, which needs no jax; the translator needs both.
_HOMES = {
    "Translation": "port.translation.result",
    "draw_layouts": "port.translation.artifact.metadata",
    "translate": "port.translation.translating",
}

__all__ = ["Translation", "draw_layouts", "translate"]


def __getattr__(name: str) -> Any:
    if name == "translate":
        require("port.translate", translate=EXTRAS["translate"])
    if name in _HOMES:
        with naming_extras(f"port.translation.{name}"):
            return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'port.translation' has no attribute {name!r}")
