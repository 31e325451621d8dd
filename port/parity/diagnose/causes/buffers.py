"""Running statistics that differ after some steps: reversed momentum, the biased variance, or no update."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from port.parity.compare.distance import difference
from port.parity.compare.layer_matching import Matched
from port.parity.compare.mode import Models
from port.parity.diagnose.causes.operation import Arguments, TorchOperation, Way, do, having, together
from port.parity.diagnose.causes.rerun import rerun
from port.parity.sides.calls import Arrays

_FLAXS_DEFAULT = 0.99


def statistics(models: Models, match: Matched, twin: Any, steps: int) -> Iterator[Way]:
    """Yield the changes with which torch's BatchNorm gives the statistics of Flax's layer.

    Args:
        models: the two models.
        match: the layer on both sides.
        twin: Flax's layer.
        steps: forward passes in training mode.
    """
    flax = models.flax.buffers_after(models.flax_inputs, steps)
    first = rerun(models.torch, models.inputs, training=True, steps=steps)
    own = [op for op in first.operations if op.name == "batch_norm" and op.layer == match.torch.path]
    if not own:
        return
    averages = getattr(models.torch.modules.get(match.torch.path), "momentum", 0.1) is None
    for ways in _ways(own[0], twin, averages=averages):
        runs = {operation.number: together(ways) for operation in own}
        done = rerun(models.torch, models.inputs, training=True, steps=steps, ways=runs)
        if _same(match, done.buffers, flax, models.limits.forward):
            yield from ways
            return


def _ways(operation: TorchOperation, twin: Any, *, averages: bool) -> Iterator[tuple[Way, ...]]:
    """Yield each mistake alone, then pairs of them.

    Args:
        operation: torch's call.
        twin: Flax's layer.
        averages: whether torch averages all batches equally: its momentum then changes with each batch.
    """
    momentum = operation.arguments.get("momentum", 0.1)
    if not isinstance(momentum, float):
        return
    flaxs = getattr(twin, "momentum", None)
    kept = type(twin).__module__.startswith("flax.")
    remedy = f"Give it momentum={momentum:g}, as in torch."
    if kept:
        remedy = f"Give flax's BatchNorm momentum={1 - momentum:g}, the share that is kept."
    shares = {momentum: None, 1 - momentum: None, 1 - _FLAXS_DEFAULT: None}
    if isinstance(flaxs, float):
        shares |= {(1 - flaxs if kept else flaxs): None}
    momenta: list[Way | None] = [None]
    for share in shares:
        if abs(share - momentum) > 1e-9:
            said = f"{flaxs:g}" if isinstance(flaxs, float) else f"{1 - share:g}"
            why = f"momentum is {momentum:g} in torch and {said} in Flax"
            why += ", which takes it as the share that is kept, 1 − torch's" if kept else ""
            kind = "momentum-reversed" if abs(share - (1 - momentum)) < 1e-9 else "momentum"
            if averages:
                kind, remedy = "cumulative-average-missing", ""
                why = f"torch averages all batches equally (momentum=None), Flax by momentum {said}"
            momenta.append(Way(kind, why, having(momentum=share), remedy))
    still = Way("statistics-not-updated", "Flax does not update its running statistics", having(momentum=0.0))
    biased = Way("biased-running-variance", "Flax keeps the biased variance, torch the unbiased one", _biased)
    for second, first in product((None, biased), [*momenta, still]):
        chosen = tuple(way for way in (first, second) if way is not None)
        if chosen and not (first is still and second is biased):
            yield chosen


def _biased(function: Any, arguments: Arguments) -> Any:
    x, variance = arguments["input"], arguments["running_var"]
    count = x.numel() // x.shape[1]
    before = variance.clone()
    output = do(function, arguments)
    # new = kept + m · unbiased: the same with unbiased · (n − 1) / n.
    share = _share_of(arguments)
    variance.copy_((1 - share) * before + (variance - (1 - share) * before) * (count - 1) / count)
    return output


def _share_of(arguments: Arguments) -> float:
    return float(arguments.get("momentum", 0.1))


def _same(match: Matched, torch: Arrays, flax: Arrays, limit: float) -> bool:
    for entry in match.entries:
        if entry.collection == "params" or not all(source in torch for source in entry.sources):
            continue
        carried = entry(tuple(torch[source] for source in entry.sources))
        for path, array in zip(entry.targets, carried, strict=True):
            if path in flax and difference(np.asarray(array), np.asarray(flax[path])) > limit:
                return False
    return True
