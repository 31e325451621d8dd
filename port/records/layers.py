"""The layers of a model by class name, so that a record says what was trained."""

from __future__ import annotations

from typing import Any


def layer_names(model: Any) -> list[str]:
    """List the qualified class names of a torch model's layers, sorted and unique.

    A layer is a module without children, or a torch module with children (MultiheadAttention). For a subclass of a
    torch class, both names are listed. Accepts any object with torch's ``modules()`` and ``children()``.
    """
    names: set[str] = set()
    for module in model.modules():
        mro = [cls for cls in type(module).__mro__ if _qualified(cls) != "torch.nn.modules.module.Module"]
        if any(True for _ in module.children()) and not _is_torchs(mro[0]):
            continue
        names.add(_qualified(mro[0]))
        names.update(_qualified(cls) for cls in mro[1:] if _is_torchs(cls) and not cls.__name__.startswith("_"))
    return sorted(name for name in names if not name.startswith("torch.nn.modules.container."))


def _qualified(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _is_torchs(cls: type) -> bool:
    return cls.__module__.startswith("torch.nn.modules.")
