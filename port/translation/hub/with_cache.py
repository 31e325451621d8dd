"""A language model of ``transformers`` whose attention layers have a cache of fixed size: called at a position."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from port.errors import UsageError
from port.translation.frontend.token_cache import TorchTokenCache
from port.translation.hub.hub_model import HubModel

WINDOWS = re.compile(r"sliding_window(_size)?|attention_window|attention_chunk_size|window_size")
"""Fields of a configuration: how many of the tokens before a token sees."""


def with_cache(model: HubModel) -> HubModel:
    """The same model, called as ``model(input_ids, position, places)``, which gives logits alone.

    Its parameters have the names that they had.

    Args:
        model: of ``transformers``.

    Raises:
        UsageError: it does not go on with a text, or keeps more of it than keys and values.
    """
    _check_generates(model)
    return replace(model, model_class=_cached_class(model.model_class))


def _check_generates(model: HubModel) -> None:
    can = getattr(model.model_class, "can_generate", None)
    if can is None or not can():
        raise UsageError(
            f"{model.name} does not go on with a text: generation is of a class with a head for the next token, as "
            "LlamaForCausalLM or AutoModelForCausalLM"
        )
    config = model.config
    if getattr(config, "is_encoder_decoder", False):
        raise UsageError(
            f"{model.name} is an encoder with a decoder: generation with a cache is of decoders alone, so far"
        )
    if getattr(config, "is_decoder", None) is False and not getattr(config, "is_causal", True):
        raise UsageError(f"{model.name} sees the tokens that follow: its configuration says is_decoder = False")
    if getattr(model.model_class, "_is_stateful", False):
        raise UsageError(
            f"{model.name} keeps a state of its own beside keys and values (of a convolution, a recurrence), which a "
            "cache of keys and values is not: it is translated without --generate"
        )


def _cached_class(base: Any) -> Any:
    """A class with the same name, whose attention layers have a cache."""

    class CausalWithCache(base):  # type: ignore[misc]
        def __init__(self, config: Any) -> None:
            super().__init__(config)
            for layer in attention_layers(self):
                layer.key_cache = TorchTokenCache()
                layer.value_cache = TorchTokenCache()

        @property
        def vocabulary(self) -> int:
            return int(self.config.get_text_config().vocab_size)

        @property
        def window(self) -> int:
            own = vars(self.config.get_text_config())
            return max(
                [value for name, value in own.items() if WINDOWS.fullmatch(name) and isinstance(value, int)] or [0]
            )

        def without_cache(self, input_ids: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = super().forward(input_ids=input_ids, use_cache=False).logits
            return logits

        def forward(self, input_ids: torch.Tensor, position: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
            layers = {layer.layer_idx: layer for layer in attention_layers(self)}
            cache = _Caches(layers, position, places)
            logits: torch.Tensor = super().forward(input_ids=input_ids, cache=cache, use_cache=False).logits
            return logits

    made: Any = CausalWithCache
    made.__name__, made.__qualname__, made.__module__ = base.__name__, base.__qualname__, base.__module__
    made.__doc__ = base.__doc__
    return made


def attention_layers(module: torch.nn.Module) -> Iterator[Any]:
    """The layers that hand their keys and values to a cache."""
    for layer in module.modules():
        if getattr(layer, "layer_idx", None) is not None and _updates_cache(type(layer)):
            yield layer


def _updates_cache(layer: type) -> bool:
    forward = inspect.unwrap(layer.forward)  # type: ignore[attr-defined]
    return ".update" in inspect.getsource(forward)


class _Caches:
    """What `transformers` takes for its cache."""

    is_compileable = True  # masks are written out, whatever the tokens are

    def __init__(self, layers: dict[int, Any], position: torch.Tensor, places: torch.Tensor) -> None:
        self.position, self.places = position, places
        self._layers = layers

    def update(
        self, key: torch.Tensor, value: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        layer, at = self._layers[layer_idx], (self.position, self.places)
        return layer.key_cache(key, *at), layer.value_cache(value, *at)

    def get_seq_length(self, layer_idx: int = 0) -> torch.Tensor:
        return self.position

    def get_query_offset(self, layer_idx: int = 0) -> torch.Tensor:
        return self.position

    def get_mask_sizes(self, query_length: int, layer_idx: int = 0) -> tuple[int, int]:
        return self.places.shape[0], 0
