"""Language models of ``transformers`` with key and value caches of fixed size."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cache as cached_result
from typing import Any
from unittest import mock

import torch

from port.errors import UsageError
from port.translation.frontend.token_cache import TorchTokenCache
from port.translation.hub.hub_model import HubModel

WINDOWS = re.compile(r"sliding_window(_size)?|attention_window|attention_chunk_size|window_size")
"""Configuration fields that limit how many of the tokens before it a token sees."""
WINDOW_MASK = "create_sliding_window_causal_mask"
"""The function of ``transformers`` that makes the mask of layers with a sliding window."""


def with_cache(model: HubModel) -> HubModel:
    """Add key and value caches to a model, which is then called as ``model(input_ids, position, places)``.

    It returns logits alone. Where layers have a sliding window, their caches are rings of that many tokens, and the
    model is called as ``model(input_ids, position, places, window_positions)``. Parameters keep their names.

    Args:
        model: a causal language model of ``transformers``.

    Raises:
        UsageError: the model does not generate text, or keeps more of it than keys and values.
    """
    _check_generates(model)
    return replace(model, model_class=_cached_class(model.model_class, bool(_windows(model.model_class, model.config))))


def _check_generates(model: HubModel) -> None:
    can = getattr(model.model_class, "can_generate", None)
    if can is None or not can():
        raise UsageError(
            f"{model.name} does not generate text: --generate needs a class with a head for the next token, such as "
            "LlamaForCausalLM or AutoModelForCausalLM"
        )
    config = model.config
    if getattr(config, "is_encoder_decoder", False):
        raise UsageError(
            f"{model.name} is an encoder with a decoder: --generate supports decoders alone, so far. Translate it "
            "without --generate"
        )
    if getattr(config, "is_decoder", None) is False and not getattr(config, "is_causal", True):
        raise UsageError(f"{model.name} sees the tokens that follow: its configuration has is_decoder = False")
    if getattr(model.model_class, "_is_stateful", False):
        raise UsageError(
            f"{model.name} keeps the state of a convolution or a recurrence, which a cache of keys and values cannot "
            "hold: translate it without --generate"
        )


def _windows(base: Any, config: Any) -> dict[int, int]:
    """Return the window of each layer that has one, by the rule of ``transformers``' static cache."""
    text = config.get_text_config()
    window = getattr(text, "sliding_window", None)
    if not window or not hasattr(sys.modules[base.__module__], WINDOW_MASK):
        return {}
    types = getattr(text, "layer_types", None) or ["sliding_attention"] * text.num_hidden_layers
    return {index: window for index, kind in enumerate(types) if kind == "sliding_attention"}


def _cached_class(base: Any, has_windows: bool) -> Any:
    """Return a class of the same name whose attention layers have caches."""

    class WithCaches(base):  # type: ignore[misc]
        def __init__(self, config: Any) -> None:
            super().__init__(config)
            windows = _windows(base, config)
            for layer in attention_layers(self):
                window = windows.get(layer.layer_idx)
                layer.key_cache = TorchTokenCache(window, beside_windows=bool(windows))
                layer.value_cache = TorchTokenCache(window, beside_windows=bool(windows))

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

        def with_caches(self, input_ids: torch.Tensor, *at: torch.Tensor) -> torch.Tensor:
            cache = _cache_class()({layer.layer_idx: layer for layer in attention_layers(self)}, *at)
            with _masks_written_out():
                logits: torch.Tensor = super().forward(input_ids=input_ids, cache=cache, use_cache=False).logits
            return logits

    class WithFullCaches(WithCaches):
        def forward(self, input_ids: torch.Tensor, position: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
            return self.with_caches(input_ids, position, places)

    class WithRings(WithCaches):
        def forward(
            self,
            input_ids: torch.Tensor,
            position: torch.Tensor,
            places: torch.Tensor,
            window_positions: torch.Tensor,
        ) -> torch.Tensor:
            return self.with_caches(input_ids, position, places, window_positions)

    made: Any = WithRings if has_windows else WithFullCaches
    made.__name__, made.__qualname__, made.__module__ = base.__name__, base.__qualname__, base.__module__
    made.__doc__ = base.__doc__
    return made


def attention_layers(module: torch.nn.Module) -> Iterator[Any]:
    """Yield the layers that pass their keys and values to a cache."""
    for layer in module.modules():
        if getattr(layer, "layer_idx", None) is not None and _updates_cache(type(layer)):
            yield layer


def _updates_cache(layer: type) -> bool:
    forward = inspect.unwrap(layer.forward)  # type: ignore[attr-defined]
    return ".update" in inspect.getsource(forward)


def _masks_written_out() -> AbstractContextManager[Any]:
    """Keep ``transformers`` from leaving out a mask for what the tokens or lengths of one call are."""
    from transformers import masking_utils

    return mock.patch.object(masking_utils, "_ignore_causal_mask_sdpa", lambda *args, **kwargs: False)


@cached_result
def _cache_class() -> Any:
    """Return the class of the cache that a model of ``transformers`` is called with."""
    from transformers.cache_utils import Cache

    class Caches(Cache):  # type: ignore[misc]
        """Passes keys and values to the caches of the layers.

        Args:
            layers: attention layers by their index.
            position: of the call's first token.
            places: (places,), one for each token that there is room for.
            window_positions: (keys,), the positions of the keys of layers with a sliding window.
        """

        is_compileable = True

        def __init__(
            self,
            layers: dict[int, Any],
            position: torch.Tensor,
            places: torch.Tensor,
            window_positions: torch.Tensor | None = None,
        ) -> None:
            self.position, self.places, self.window_positions = position, places, window_positions
            self._layers = layers

        @property
        def is_sliding(self) -> list[bool]:
            return [index in self._layers and self._has_window(index) for index in range(max(self._layers) + 1)]

        @property
        def is_linear(self) -> list[bool]:
            return [False] * (max(self._layers) + 1)

        @property
        def is_dummy(self) -> list[bool]:
            return [index not in self._layers for index in range(max(self._layers) + 1)]

        def _has_window(self, index: int) -> bool:
            return self._layers[index].key_cache.window is not None

        def update(
            self, key: torch.Tensor, value: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
        ) -> tuple[torch.Tensor, torch.Tensor]:
            layer, at = self._layers[layer_idx], [self.position, self.places]
            if self.window_positions is not None:
                at.append(self.window_positions)
            return layer.key_cache(key, *at), layer.value_cache(value, *at)

        def get_seq_length(self, layer_idx: int = 0) -> torch.Tensor:
            return self.position

        def get_query_offset(self, layer_idx: int = 0) -> torch.Tensor:
            return self.position

        def get_mask_sizes(self, query_length: int, layer_idx: int = 0) -> tuple[int, Any]:
            if not self._has_window(layer_idx):
                return self.places.shape[0], 0
            assert self.window_positions is not None
            return self.window_positions.shape[0], _Positions(self.window_positions)

    return Caches


class _Positions:
    """Positions of keys in place of the offset that ``transformers`` adds to ``arange(keys)``."""

    def __init__(self, positions: torch.Tensor) -> None:
        self.positions = positions

    def __radd__(self, numbers: torch.Tensor) -> torch.Tensor:
        return self.positions
