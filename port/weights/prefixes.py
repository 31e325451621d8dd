"""Finds and removes the prefixes that wrappers put before a state dict's names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator

from port.errors import WeightsMismatch

INNER = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")
"""The names under which torch.compile, FullyShardedDataParallel and activation checkpointing hold what they wrap."""
WRAPPERS = ("module", "model", *INNER)
"""Those, and the attributes of DataParallel, DistributedDataParallel and training frameworks for their model."""

COUNT = "n_averaged"
"""The buffer that torch.optim.swa_utils.AveragedModel registers beside the model, which is its ``module``."""


def count_of_averages(names: Collection[str], expected: Collection[str]) -> str | None:
    """The name of an AveragedModel's count, which is not a weight: everything else is in its ``module``.

    Args:
        names: in the file.
        expected: in the model, which may itself be an AveragedModel: the count then belongs to it.
    """
    return None if not expected or _count_beside_module(expected) else _count_beside_module(names)


def _count_beside_module(names: Collection[str]) -> str | None:
    for name in names:
        above, _, last = name.rpartition(".")
        module = f"{above}.module." if above else "module."
        if last == COUNT and all(part in WRAPPERS for part in module.split(".")[:-1]):
            others = [other for other in names if other != name]
            if others and all(other.startswith(module) for other in others):
                return name
    return None


def _itself(name: str) -> str:
    return name


def strip_prefixes(
    names: Collection[str], expected: Collection[str], *, renaming: Callable[[str], str] = _itself
) -> dict[str, str]:
    """Map the names saved from a wrapped model to the model's own names.

    Of all readings (a common run of `WRAPPERS` removed from the front; those of `INNER`, or also ``module``, from the
    middle, for a wrapped submodule) the one that matches most of the expected names is chosen; of equals, the one that
    changes least. A name that is expected as it is does not change.

    Args:
        names: in the file.
        expected: in the model.
        renaming: the names' counterparts in the model, without wrappers.

    Returns:
        name in the file → name without wrappers, in the file's order.

    Raises:
        WeightsMismatch: two names of the file would become one.
    """
    wanted = set(expected)
    best: dict[str, str] = {}
    best_score: tuple[int, int] | None = None
    for reading in _readings(list(names)):
        result = {name: name if name in wanted else short for name, short in zip(names, reading, strict=True)}
        changed = sum(name.count(".") - short.count(".") for name, short in result.items())
        score = (len(wanted & set(map(renaming, result.values()))), -changed)
        if best_score is None or score > best_score:
            best, best_score = result, score
    meeting = [short for short, count in Counter(best.values()).items() if count > 1]
    if meeting:
        pairs = "\n  ".join(
            f"{short}: {', '.join(name for name in best if best[name] == short)}" for short in sorted(meeting)
        )
        raise WeightsMismatch(f"without the wrappers' prefixes several of the file's names become one:\n  {pairs}")
    return best


def _readings(names: list[str]) -> Iterator[list[str]]:
    """The names unchanged, and with each way of removing wrappers."""
    for inner in ((), INNER, (*INNER, "module")):
        parts = [_without(name.split("."), inner) for name in names]
        runs = Counter(run for name in parts for run in _leading_runs(name))
        for prefix in sorted(runs, key=len):
            # A wrapper's prefix is on nearly all names: on a single one it belongs to the model.
            if 2 * runs[prefix] < len(parts):
                continue
            yield [".".join(name[len(prefix) :] if tuple(name[: len(prefix)]) == prefix else name) for name in parts]


def _without(parts: list[str], inner: tuple[str, ...]) -> list[str]:
    # `_leading_runs` judges what comes first, by how many names have it.
    return parts[:1] + [part for part in parts[1:-1] if part not in inner] + parts[1:][-1:]


def _leading_runs(parts: list[str]) -> Iterator[tuple[str, ...]]:
    """Every run of wrappers at the front that leaves a name; the empty one first."""
    for length in range(len(parts)):
        yield tuple(parts[:length])
        if parts[length] not in WRAPPERS:
            return
