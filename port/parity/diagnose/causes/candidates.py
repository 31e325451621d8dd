"""Select torch's operations that may be at fault where the two sides diverge."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from port.parity.diagnose.causes.citing import cited_by
from port.parity.diagnose.causes.operation import TorchOperation
from port.parity.diagnose.causes.rerun import Rerun
from port.parity.diagnose.causes.target import Target

NEAREST = 64
"""The most operations to change, counted back from the divergence."""


def candidates(target: Target, run: Rerun) -> list[TorchOperation]:
    """Return the operations between the layers that agree and the one that differs."""
    limit = target.limit
    is_right: dict[str, bool] = {}
    for row in target.result.rows:
        path = row.layer.partition(" (call ")[0]
        is_right[path] = is_right.get(path, True) and row.output is not None and row.output <= limit
    right = [path for path, holds in is_right.items() if holds]
    own = target.parting.itself
    twins = target.result.flax_layers
    # A mask has the opposite meaning on the other side and is not compared, so a layer's mask may be at fault.
    is_masked = target.torch is not None and any(array.dtype == bool for array in target.torch.inputs.values())
    chosen = []
    for operation in run.operations:
        inside = target.torch is not None and operation.number >= run.started
        before = own is True and not inside and not (is_masked and _is_mask(operation.result))
        if operation.reads or before or (own is False and inside):
            continue
        if any(operation.layer == path or operation.layer.startswith(f"{path}.") for path in right):
            continue
        match = target.models.matched.get(operation.layer)
        twin = twins.get(match.flax.path) if match is not None else None
        cites = cited_by(operation.name, match.pair if match is not None else None)
        chosen.append(replace(operation, twin=twin, cites=cites))
    return chosen[-NEAREST:]


def _is_mask(result: Any) -> bool:
    return torch.is_tensor(result) and result.dtype == torch.bool
