"""The LoRA factors of an nnx model: finding them, viewing the model without them, and adding them to linear layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
from flax import nnx

from port.mapping.guide import Guide, Layer
from port.mapping.names import joined
from port.mapping.nnx_guide import dotted, nnx_guide
from port.nn import LoRA


@dataclass(frozen=True)
class LoRAPlace:
    """The LoRA factors of one module.

    Attributes:
        path: the path of the adapted module, in the model without its adapter.
        lora: the module that holds the factors.
        lora_path: its path.
        base_path: the path of the adapted module, in the model with its adapter.
    """

    path: str
    lora: nnx.LoRA
    lora_path: str
    base_path: str

    @property
    def rank(self) -> int:
        """The factors' rank."""
        return int(self.lora.lora_a.shape[-1])

    @property
    def scaling(self) -> float:
        """The scaling of their product; `nnx.LoRA` has none."""
        return float(getattr(self.lora, "scaling", 1.0))

    @property
    def factors(self) -> tuple[str, str]:
        """The paths of A and B."""
        return joined(self.lora_path, "lora_a"), joined(self.lora_path, "lora_b")

    def within(self, path: str) -> str:
        """The path, in the model with its adapter, of a tensor that the adapted module holds."""
        return joined(self.base_path, path.removeprefix(f"{self.path}."))


def lora_places(model: nnx.Module) -> dict[str, LoRAPlace]:
    """Find all LoRA factors of a model, by the adapted module's path: `nnx.LoRA` around a module, `nnx.LoRALinear`."""
    found = {dotted(path): module for path, module in nnx.iter_modules(model)}
    places = {}
    for path, module in found.items():
        if isinstance(module, nnx.LoRALinear):
            places[path] = LoRAPlace(path, module.lora, joined(path, "lora"), path)
        elif isinstance(module, nnx.LoRA) and module.base_module is not None:
            places[path] = LoRAPlace(path, module, path, joined(path, "base_module"))
    return dict(sorted(places.items()))


def guide_without(model: nnx.Module, places: Mapping[str, LoRAPlace]) -> Guide:
    """Build an nnx model's guide, as if it had no adapter."""
    guide = nnx_guide(model)
    factors = {name for place in places.values() for name in place.factors}
    leaves = {}
    for name, leaf in guide.leaves.items():
        if name not in factors:
            bare = without(name, places)
            leaves[bare] = replace(leaf, name=bare)
    return replace(guide, leaves=leaves, layers=tuple(_layers(guide, places)))


def without(path: str, places: Mapping[str, LoRAPlace]) -> str:
    """Return a tensor's path in the model without its adapter."""
    above = path
    while above:
        above = above.rpartition(".")[0]
        place = places.get(above.removesuffix(".base_module"))
        if place is not None and place.base_path == above:
            return joined(place.path, path.removeprefix(f"{above}."))
    return path


def _layers(guide: Guide, places: Mapping[str, LoRAPlace]) -> Iterator[Layer]:
    base = {place.base_path: place for place in places.values()}
    adapters = {place.lora_path for place in places.values()}
    for layer in guide.layers:
        if layer.path in base:
            place = base[layer.path]
            around = guide.by_path[place.path]
            own = layer if place.path in adapters else _linear(place)
            yield replace(own, path=place.path, twin_path=around.twin_path)
        elif layer.path not in adapters and layer.path.rpartition(".")[0] not in adapters:
            yield layer


def _linear(place: LoRAPlace) -> Layer:
    """An `nnx.LoRALinear` as the `nnx.Linear` that it is without its adapter."""
    sizes = place.lora.in_features, place.lora.out_features
    return nnx_guide(nnx.eval_shape(lambda: nnx.Linear(*sizes, rngs=nnx.Rngs(0)))).layers[0]


@dataclass(frozen=True)
class Wrapping:
    """The LoRA module to put around one linear layer.

    Attributes:
        rank: the factors' rank.
        scaling: the scaling of their product.
        dtype: the factors' dtype.
        dropout: the rate on the input of A, in training.
        stacked: the number of layers, if it is a stack, whose parameters have an additional axis; else None.
    """

    rank: int
    scaling: float
    dtype: Any
    dropout: float = 0.0
    stacked: int | None = None


def put_around(model: nnx.Module, wrappings: Mapping[str, Wrapping], rngs: nnx.Rngs | None) -> None:
    """Put `port.nn.LoRA` around linear layers of a model, in place; its factors have no values yet.

    Args:
        model: an nnx model.
        wrappings: a linear layer's path → the module to put around it.
        rngs: draws the masks of their dropout.
    """
    modules = {dotted(path): module for path, module in nnx.iter_modules(model)}
    new = {id(modules[path]): _lora(modules[path], wrapping, rngs) for path, wrapping in wrappings.items()}
    _replace(model, new)


def take_off(model: nnx.Module) -> None:
    """Remove every `nnx.LoRA` around a module, in place."""
    _replace(model, {id(place.lora): place.lora.base_module for place in lora_places(model).values()})


def _lora(linear: Any, wrapping: Wrapping, rngs: nnx.Rngs | None) -> LoRA:
    lora = LoRA(
        linear.in_features,
        wrapping.rank,
        linear.out_features,
        scaling=wrapping.scaling,
        dropout_rate=wrapping.dropout,
        dropout_rngs=rngs,
        base_module=linear,
        param_dtype=wrapping.dtype,
        a_initializer=_abstract,
        b_initializer=_abstract,
        rngs=nnx.Rngs(0),
    )
    if wrapping.stacked is not None:
        for factor in (lora.lora_a, lora.lora_b):
            factor.set_value(jax.ShapeDtypeStruct((wrapping.stacked, *factor.shape), wrapping.dtype))
    return lora


def _abstract(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
    """A placeholder for a parameter that is filled later."""
    return jax.ShapeDtypeStruct(shape, dtype)


def _replace(model: nnx.Module, new: Mapping[int, Any]) -> None:
    """Replace modules wherever a model holds them."""
    for _, module in list(nnx.iter_modules(model)):
        for name, value in list(vars(module).items()):
            if id(value) in new:
                setattr(module, name, nnx.data(new[id(value)]))
            elif isinstance(value, dict | list) and not name.startswith("_pytree__"):
                _replace_within(value, new)


def _replace_within(container: dict[Any, Any] | list[Any], new: Mapping[int, Any]) -> None:
    for key, value in list(container.items() if isinstance(container, dict) else enumerate(container)):
        if id(value) in new:
            container[key] = new[id(value)]
        elif isinstance(value, dict | list):
            _replace_within(value, new)
