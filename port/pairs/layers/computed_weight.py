"""torch layers whose weight is computed at every call: which weight, by what, and the layer as it would be without."""

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
        by: what computes it: a parametrization, or the older kind of hook.
        plain: the layer as it would be without, holding what the weight is computed from in its place.
    """

    name: str
    by: Any
    plain: Any


def computed_weight(module: Any, by: str, original: str) -> ComputedWeight | None:
    """The first weight of a torch module that a class computes.

    Args:
        module: any torch module.
        by: the class's public name.
        original: what the weight is computed from, in a state dict; ``{name}`` stands for the weight's name.

    Returns:
        None where no weight is computed so, or where it then goes through another parametrization.
    """
    for name, chain in dict(getattr(module, "parametrizations", {})).items():
        if len(chain) == 1 and is_class(type(chain[0]), by):
            return ComputedWeight(name, chain[0], _without_parametrization(module, name, original))
    for key, hook in module._forward_pre_hooks.items():
        if is_class(type(hook), by):
            return ComputedWeight(hook.name, hook, _without_hook(module, key, hook.name, original))
    return None


def computing_hooks(module: Any) -> list[int]:
    """The keys, in ``_forward_pre_hooks``, of the older hooks that compute a weight before every call."""
    return [key for key, hook in module._forward_pre_hooks.items() if any(is_class(type(hook), by) for by in OLDER)]


def _without_parametrization(module: Any, name: str, original: str) -> Any:
    weight = getattr(module.parametrizations[name], original.rpartition(".")[2])
    others = {key: chain for key, chain in module.parametrizations.items() if key != name}
    modules = {key: inner for key, inner in module._modules.items() if key != "parametrizations"}
    # torch put a subclass in place of the layer's class, whose properties compute the weights.
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
    """A shallow copy; torch's own copying computes weights, or refuses."""
    copy: Any = object.__new__(cls)
    vars(copy).update(vars(module) | changes)
    return copy
