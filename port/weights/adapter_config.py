"""Reads a LoRA adapter's ``adapter_config.json`` in a PEFT folder: its modules, their ranks and scalings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import isfinite, sqrt
from pathlib import Path
from typing import Any

from port.errors import BrokenWeights, UsageError
from port.weights.adapter_folder import CONFIG

ALL_LINEAR = "all-linear"
OTHERWISE = {
    "use_dora": "DoRA, which scales each row of the sum",
    "lora_bias": "a bias of lora_B",
    "target_parameters": "parameters that are not a module's weight",
    "trainable_token_indices": "rows of an embedding that are trained alone",
    "layer_replication": "layers that are repeated",
    "alora_invocation_tokens": "an adapter that some tokens activate",
    "use_qalora": "inputs that are pooled before lora_A",
    "use_bdlora": "block-diagonal factors",
    "arrow_config": "several adapters, chosen token by token",
    "kasa_config": "KaSA, which has a diagonal between the factors",
    "monteclora_config": "factors that are sampled",
    "velora_config": "inputs that are compressed",
}
"""Options that compute something other than ``W x + scaling · B A x``."""
OWN_START = ("gaussian", "eva", "orthogonal")
"""Initializations of the factors that do not change the model's own weights."""
_LARGEST = 10_000_000  # bytes


@dataclass(frozen=True)
class AdapterConfig:
    """A LoRA adapter's config.

    Attributes:
        rank: the default rank.
        alpha: the default alpha; the scaling is alpha / rank.
        ranks: pattern of a module's path → its rank.
        alphas: pattern of a module's path → its alpha.
        by_root: whether the scaling is alpha / √rank (rsLoRA).
        targets: a module's path, or its end; or a regular expression for the whole path.
        excluded: likewise, for modules that are not adapted.
        some_layers: whether the targets are only those of some layers.
        saved: the ends of the paths of modules that the adapter stores whole (``modules_to_save``).
        transposed: whether the weights are (in, out), as GPT-2's are (``fan_in_fan_out``).
        dropout: the rate on the input of A, in training.
        text: the file's text.
        origin: the file's name, for error messages.
    """

    rank: int
    alpha: float
    ranks: Mapping[str, int] = field(default_factory=dict)
    alphas: Mapping[str, float] = field(default_factory=dict)
    by_root: bool = False
    targets: tuple[str, ...] | str | None = None
    excluded: tuple[str, ...] | str = ()
    some_layers: bool = False
    saved: tuple[str, ...] = ()
    transposed: bool = False
    dropout: float = 0.0
    text: str = ""
    origin: str = CONFIG

    def rank_of(self, path: str) -> int:
        """The rank of one module's adapter."""
        return _by_pattern(self.ranks, path, self.rank)

    def scaling_of(self, path: str) -> float:
        """The factor of the product of one module's factors."""
        rank = self.rank_of(path)
        return _by_pattern(self.alphas, path, self.alpha) / (sqrt(rank) if self.by_root else rank)

    def is_target(self, path: str) -> bool | None:
        """Whether the adapter covers a module with a weight; None if the config does not say."""
        if self.targets is None or self.targets == ALL_LINEAR or self.some_layers:
            return None
        is_saved = any(re.match(rf"(^|.*\.){name}($|\..*)", path) for name in self.saved)
        return not is_saved and not _meets(self.excluded, path) and _meets(self.targets, path)


def read_adapter_config(folder: Path) -> AdapterConfig:
    """Read a folder's ``adapter_config.json``.

    Raises:
        BrokenWeights: the file is missing, or cannot be read.
        UsageError: it is not for LoRA, or for a variant that computes something else.
    """
    path = folder / CONFIG
    try:
        if path.stat().st_size > _LARGEST:
            raise ValueError(f"it has more than {_LARGEST} bytes")
        text = path.read_bytes().decode()
    except FileNotFoundError as error:
        if not folder.exists():
            raise BrokenWeights(f"{folder}: there is no such adapter, folder or file") from error
        raise BrokenWeights(f"{folder} is no adapter's folder: it has no {CONFIG}") from error
    except (OSError, ValueError) as error:
        raise BrokenWeights(f"{path} cannot be read: {error}") from error
    return adapter_config_from(text, str(path))


def adapter_config_from(text: str, origin: str) -> AdapterConfig:
    """Parse an adapter's config.

    Args:
        text: the file's text.
        origin: the file, for error messages.

    Raises:
        BrokenWeights: the text is invalid.
        UsageError: it is not for LoRA, or for a variant that computes something else.
    """
    try:
        settings = json.loads(text)
        if not isinstance(settings, dict):
            raise ValueError("it must be a table of settings")
        if str(settings.get("peft_type")).upper() != "LORA":
            raise UsageError(f"{origin}: only LoRA adapters are read, but its peft_type is {settings.get('peft_type')}")
        if asked := [f"{name} ({why})" for name, why in OTHERWISE.items() if settings.get(name)]:
            raise UsageError(f"{origin} uses what is not supported here: {'; '.join(asked)}")
        start = settings.get("init_lora_weights")
        if isinstance(start, str) and start not in OWN_START:
            raise UsageError(
                f"{origin}: init_lora_weights = {start!r} changes the model's own weights before the adapter is added. "
                "Save the adapter with PEFT's path_initial_model_for_weight_conversion; or, if the weights that are "
                "passed are the changed ones, set it to true"
            )
        return _config(settings, text, origin)
    except UsageError:
        raise
    except (ValueError, TypeError, KeyError, RecursionError, re.error) as error:
        why = f"{error} is missing" if isinstance(error, KeyError) else error
        raise BrokenWeights(f"{origin} cannot be read as a LoRA adapter's config: {why}") from error


def _config(settings: dict[str, Any], text: str, origin: str) -> AdapterConfig:
    layers = settings.get("layers_to_transform")
    return AdapterConfig(
        rank=_rank("r", settings["r"]),
        alpha=_number("lora_alpha", settings["lora_alpha"]),
        ranks={_pattern(name): _rank(name, rank) for name, rank in _table(settings, "rank_pattern").items()},
        alphas={_pattern(name): _number(name, alpha) for name, alpha in _table(settings, "alpha_pattern").items()},
        by_root=_switch(settings, "use_rslora"),
        targets=_names(settings.get("target_modules"), "target_modules"),
        excluded=_names(settings.get("exclude_modules"), "exclude_modules") or (),
        some_layers=layers is not None and layers != [],
        saved=_saved(settings.get("modules_to_save")),
        transposed=_switch(settings, "fan_in_fan_out"),
        dropout=_number("lora_dropout", settings.get("lora_dropout") or 0.0),
        text=text,
        origin=origin,
    )


def _meets(names: tuple[str, ...] | str, path: str) -> bool:
    if isinstance(names, str):
        return re.fullmatch(names, path) is not None
    return any(path == name or path.endswith(f".{name}") for name in names)


def _by_pattern(table: Mapping[str, Any], path: str, otherwise: Any) -> Any:
    """The value for the first pattern that matches the path's end."""
    return next((value for name, value in table.items() if re.match(rf"(.*\.)?({name})$", path)), otherwise)


def _rank(name: str, value: Any) -> int:
    if type(value) is not int or value < 1:
        raise ValueError(f"a rank must be a whole number of at least 1, got {name} = {value!r}")
    return value


def _number(name: str, value: Any) -> float:
    if type(value) not in (int, float) or not isfinite(value):
        raise ValueError(f"{name} is a number, got {value!r}")
    return float(value)


def _switch(settings: dict[str, Any], name: str) -> bool:
    value = settings.get(name) or False
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false, got {value!r}")
    return value


def _table(settings: dict[str, Any], name: str) -> dict[str, Any]:
    value = settings.get(name) or {}
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be a table of modules' paths, got {value!r}")
    return value


def _pattern(name: str) -> str:
    re.compile(name)
    return name


def _names(value: Any, name: str) -> tuple[str, ...] | str | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value if value == ALL_LINEAR else _pattern(value)
    return _list(value, name)


def _saved(value: Any) -> tuple[str, ...]:
    return tuple(map(_pattern, _list(value or [], "modules_to_save")))


def _list(value: Iterable[Any], name: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError(f"{name} must be a list of names, got {value!r}")
    return tuple(value)
