"""Find Flax tensors whose values are the cause: the layer agrees once it has torch's. Also find how they differ."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from port.errors import WeightsMismatch
from port.mapping import TORCH_ONLY, Entry
from port.mapping.mapping import gather
from port.parity.compare.mode import Models
from port.parity.compare.weight_changes import Became, became, equal
from port.parity.diagnose.causes.between import Relation
from port.parity.diagnose.causes.target import Target, flax_with
from port.parity.sides.calls import Arrays

_CARRY = 'Load torch\'s weights with port.load; port.check(…, weights="torch") judges the rest alone.'
_STATISTICS = "batch_stats"


def held(target: Target) -> Iterator[Relation]:
    """Yield the tensors whose values cause the divergence, of the layer or of the model's code before it."""
    models = target.models
    apart = _apart(models)
    own = _entries_beneath(target)
    mine = {path: value for path, value in apart.items() if path in own} if own else {}
    # Tensors outside layers, such as a position table, are used by the model's own code.
    homes = {path for match in models.matched.values() for entry in match.entries for path in entry.targets}
    free = {path: value for path, value in apart.items() if path not in homes}
    for chosen in (mine, free):
        if chosen and _agrees_with(target, {path: array for path, (array, _, _) in chosen.items()}):
            yield from _named(models, chosen)
            return


_Apart = dict[str, tuple[np.ndarray, Entry, Became]]


def _apart(models: Models) -> _Apart:
    """Return Flax's path → torch's values in Flax's layout, where they differ, and how."""
    carried: Arrays = {}
    entries: dict[str, Entry] = {}
    for entry in models.mapping.present(models.torch.weights):
        if entry.collection == TORCH_ONLY:
            continue
        try:
            arrays = entry(gather(entry, models.torch.weights))
        except WeightsMismatch:
            continue
        carried.update(zip(entry.targets, arrays, strict=True))
        entries.update(dict.fromkeys(entry.targets, entry))
    # As compared: Flax's own values, unless it was given torch's.
    flax = {path: np.asarray(models.flax.weights[path]) for path in carried}
    compared = {path: np.asarray(models.flax.variables[path]) for path in carried}
    found = {}
    for path, array in carried.items():
        if equal(array.astype(compared[path].dtype), compared[path]) or equal(array, flax[path]):
            continue
        others = {", ".join(entries[other].sources): carried[other] for other in carried if other != path}
        found[path] = array, entries[path], became(array, flax[path], others)
    return found


def _entries_beneath(target: Target) -> set[str]:
    if target.torch is None:
        return set()
    path = target.torch.path
    matches = [match for at, match in target.models.matched.items() if at == path or at.startswith(f"{path}.")]
    return {name for match in matches for entry in match.entries for name in entry.targets}


def _agrees_with(target: Target, carried: Arrays) -> bool:
    models = target.models
    run = flax_with(models, {**target.carried, **carried}, training=target.training)
    return target.agrees_with(run, target.limit)


def _named(models: Models, chosen: _Apart) -> Iterator[Relation]:
    """Yield one explanation per kind, for all tensors that it applies to."""
    kinds: dict[str, list[str]] = {}
    cites: dict[str, tuple[str, ...]] = {}
    carried = {path: array for path, (array, _, _) in chosen.items()}
    pairs = {path: match.pair for match in models.matched.values() for entry in match.entries for path in entry.targets}
    for path, (_, entry, what) in chosen.items():
        kind = what.kind
        if kind == "weights-not-loaded" and entry.collection == _STATISTICS:
            kind = "running-statistics-not-loaded"
        pair = pairs.get(path)
        cites.setdefault(kind, pair.notes if pair is not None else ())
        kinds.setdefault(kind, []).append(f"{', '.join(entry.sources)} → {path} ({what.why})")
    for kind, said in kinds.items():
        more = f" and {len(said) - 2} more" if len(said) > 2 else ""
        why = f"with torch's values for them the two agree: {'; '.join(said[:2])}{more}"
        yield Relation(kind, why, _CARRY, cites[kind], carried)
