"""Makes a new ``adapter_config.json``."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from math import inf, nextafter, sqrt
from typing import Any

from port.errors import UsageError


def new_adapter_config(
    modules: Mapping[str, tuple[int, float]],
    others: Collection[str] = (),
    *,
    saved: Sequence[str] = (),
    base: str | None = None,
    dropout: float = 0.0,
) -> str:
    """Return the text of an ``adapter_config.json`` for these modules.

    Args:
        modules: path in the torch model → the adapter's rank and scaling.
        others: paths in it of modules that are not adapted.
        saved: paths of the modules that the adapter stores whole.
        base: the name of the adapted model, or its folder.
        dropout: the rate on the input of A, in training.

    Raises:
        UsageError: no alphas result in these scalings.
    """
    ranks = {path: rank for path, (rank, _) in modules.items()}
    by_root, alphas = _alphas(modules)
    rank, alpha = _most(ranks), _most(alphas)
    config = {
        "peft_type": "LORA",
        "task_type": None,
        "base_model_name_or_path": base,
        "inference_mode": True,
        "r": rank,
        "lora_alpha": alpha,
        "lora_dropout": dropout,
        "target_modules": _targets(modules, others),
        "rank_pattern": {f"^{_escaped(path)}": own for path, own in ranks.items() if own != rank},
        "alpha_pattern": {f"^{_escaped(path)}": own for path, own in alphas.items() if own != alpha},
        "modules_to_save": sorted(saved) or None,
        "bias": "none",
        "fan_in_fan_out": False,
        "use_rslora": by_root,
        "use_dora": False,
        "init_lora_weights": True,
    }
    return json.dumps(config, indent=2) + "\n"


def _targets(paths: Collection[str], others: Collection[str]) -> list[str] | str:
    """The modules' paths; as one expression if one is also the end of another module's path for PEFT."""
    ends = tuple(f".{path}" for path in paths)
    if any(other.endswith(ends) for other in others if other not in paths):
        return "|".join(map(_escaped, sorted(paths)))
    return sorted(paths)


def _alphas(modules: Mapping[str, tuple[int, float]]) -> tuple[bool, dict[str, int | float]]:
    """Whether alphas are divided by the rank's root, and the alphas; by the rank itself if possible."""
    for by_root in (False, True):
        found = {path: _alpha(sqrt(rank) if by_root else rank, scaling) for path, (rank, scaling) in modules.items()}
        alphas = {path: alpha for path, alpha in found.items() if alpha is not None}
        if len(alphas) == len(modules):
            return by_root, alphas
    lost = ", ".join(
        f"{path} ({scaling!r}, rank {rank})" for path, (rank, scaling) in modules.items() if path not in alphas
    )
    raise UsageError(
        f"PEFT's scaling is lora_alpha divided by the rank, or by its root, and no alpha gives these exactly: {lost}. "
        "Choose a scaling for which one does"
    )


def _alpha(divisor: float, scaling: float) -> int | float | None:
    """The alpha that gives the scaling to the last bit; None if there is none."""
    near = scaling * divisor
    for alpha in (near, nextafter(near, inf), nextafter(near, -inf)):
        if alpha / divisor == scaling:
            return int(alpha) if alpha.is_integer() else alpha
    return None


def _most(values: Mapping[str, Any]) -> Any:
    candidates = list(values.values())
    return max(dict.fromkeys(candidates), key=candidates.count)


def _escaped(path: str) -> str:
    return re.escape(path)
