"""torch layers with a weight that is computed at every call: parametrizations and the older hooks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from port.pairs.pair import is_class

OLDER = ("torch.nn.utils.weight_norm.WeightNorm", "torch.nn.utils.spectral_norm.SpectralNorm")
"""The older hooks that compute a weight."""


@dataclass(frozen=True)
class ComputedWeight:
    """A computed weight of a torch layer.

    Attributes:
        name: the weight's name, ``"weight"``.
        by: the parametrization, or the older hook, that computes it.
        plain: the layer without it, with the original in the weight's place.
    """

    name: str
    by: Any
    plain: Any


def computed_weight(module: Any, by: str, original: str) -> ComputedWeight | None:
    """Return the first weight of a torch module that is computed by a class.

    Args:
        module: any torch module.
        by: the class's public name.
        original: state-dict key of the original; ``{name}`` is the weight's name.

    Returns:
        None if the class computes no weight, or if its result goes through another parametrization.
    """
    for name, chain in dict(getattr(module, "parametrizations", {})).items():
        if len(chain) == 1 and is_class(type(chain[0]), by):
            return ComputedWeight(name, chain[0], _without_parametrization(module, name, original))
    for key, hook in module._forward_pre_hooks.items():
        if is_class(type(hook), by):
            return ComputedWeight(hook.name, hook, _without_hook(module, key, hook.name, original))
    return None


def computing_hooks(module: Any) -> list[int]:
    """Return the keys in ``_forward_pre_hooks`` of the older hooks that compute a weight before every call."""
    return [key for key, hook in module._forward_pre_hooks.items() if any(is_class(type(hook), by) for by in OLDER)]


def _without_parametrization(module: Any, name: str, original: str) -> Any:
    weight = getattr(module.parametrizations[name], original.rpartition(".")[2])
    others = {key: chain for key, chain in module.parametrizations.items() if key != name}
    modules = {key: inner for key, inner in module._modules.items() if key != "parametrizations"}
    # torch replaced the layer's class by a subclass whose properties compute the weights.
    (cls,) = type(module).__bases__
    if others:
        modules["parametrizations"] = others
        cls = type(type(module).__name__, (cls,), {})
    return _changed(module, cls, _parameters={**module._parameters, name: weight}, _modules=modules)


def _without_hook(module: Any, key: int, name: str, original: str) -> Any:
    weight = module._parameters[original.format(name=name)]
    made = {f"{name}_{end}" for end in ("g", "v", "orig", "u")}
    parameters = {other: held for other, held in module._parameters.items() if other not in made}
    plain = _changed(
        module,
        type(module),
        _parameters={**parameters, name: weight},
        _buffers={other: held for other, held in module._buffers.items() if other not in made},
        _forward_pre_hooks={other: hook for other, hook in module._forward_pre_hooks.items() if other != key},
    )
    # The computed weight is a plain attribute there.
    vars(plain).pop(name, None)
    return plain


def _changed(module: Any, cls: type, **changes: Any) -> Any:
    """Return a shallow copy; torch's own copying computes weights, or raises."""
    copy: Any = object.__new__(cls)
    vars(copy).update(vars(module) | changes)
    return copy
