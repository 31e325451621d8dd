"""Reads how a model's weights are quantised from its ``config.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_LARGEST = 10_000_000  # bytes


def quantization_config(folder: Path | str) -> Mapping[str, Any] | None:
    """Read a model folder's quantization config; None if it has none, or none that can be read."""
    path = Path(folder) / "config.json"
    try:
        if path.stat().st_size > _LARGEST:
            return None
        config = json.loads(path.read_bytes().decode())
    except (OSError, ValueError, RecursionError):
        return None
    found = config.get("quantization_config") or config.get("compression_config") if isinstance(config, dict) else None
    return found if isinstance(found, dict) and found else None


def said_blocks(config: Mapping[str, Any] | None) -> tuple[int, ...] | None:
    """The blocks that share a scale, along a weight's last axes; None if they are not defined, or not unique."""
    if config is None:
        return None
    block_sizes = [config.get("weight_block_size")]
    groups = config.get("config_groups")
    for group in groups.values() if isinstance(groups, dict) else ():
        weights = group.get("weights") if isinstance(group, dict) else None
        block_sizes.append(weights.get("block_structure") if isinstance(weights, dict) else None)
    found = {sizes for each in block_sizes if (sizes := _sizes(each))}
    return found.pop() if len(found) == 1 else None


def _sizes(value: Any) -> tuple[int, ...] | None:
    is_sizes = isinstance(value, list) and all(type(size) is int and size > 0 for size in value)
    return tuple(value) if is_sizes else None
