"""Whether the data that a written original.py makes, by the script's own lines alone, is what the script had."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from port.errors import UsageError
from port.scripts.events import Event
from port.scripts.wording import place_of
from port.scripts.writing.loop import EpochLoop


def check_data(
    file: Path, loop: EpochLoop, loaders: Mapping[str, Any], training: Event, evaluation: Event | None
) -> None:
    """Whether original.py gives the loaders that the script had.

    Raises:
        UsageError: it does not, or fails.
    """
    line = place_of((training["constructed"] or training)["where"])
    try:
        spec = spec_from_file_location("written_original", file)
        assert spec is not None and spec.loader is not None
        module = sys.modules["written_original"] = module_from_spec(spec)
        spec.loader.exec_module(module)
        made, _ = module.data(module.options().parse_args(sys.argv[1:]))
        pairs = {"training": loaders[training["name"]]}
        if evaluation is not None:
            pairs["evaluation"] = loaders[evaluation["name"]]
        found = {role: difference_of(theirs, made[role]) for role, theirs in pairs.items()}
    except (Exception, SystemExit) as error:
        first = (str(error).splitlines() or [""])[0][:200]
        raise UsageError(
            f"{line}: the data cannot be made by the lines before it alone ({type(error).__name__}: {first}): write "
            "the loop around train_step, with the DataLoader as it is"
        ) from error
    finally:
        sys.modules.pop("written_original", None)
    for role, difference in found.items():
        if difference:
            raise UsageError(
                f"{line}: made by its own lines alone, the data of {loop.loaders[role]} is another ({difference}), as "
                "where it is drawn behind other draws: seed a generator of its own, or save it, and observe it again"
            )


def difference_of(ours: Any, theirs: Any) -> str:
    """What two DataLoaders have not in common; empty where nothing is seen: settings, length, and some examples."""
    for name in ("batch_size", "drop_last"):
        if getattr(ours, name) != getattr(theirs, name):
            return f"{name} {getattr(ours, name)} and {getattr(theirs, name)}"
    for name in ("sampler", "dataset"):
        if type(getattr(ours, name)).__qualname__ != type(getattr(theirs, name)).__qualname__:
            return f"another {name}"
    if not hasattr(ours.dataset, "__getitem__") or len(ours.dataset) != len(theirs.dataset):
        return "no examples by number, or another length"
    for index in sorted({0, len(ours.dataset) // 2, len(ours.dataset) - 1}):
        one, other = (_example(loader.dataset, index) for loader in (ours, theirs))
        if len(one) != len(other) or not all(map(_is_same, one, other)):
            return f"example {index}"
    return ""


def _example(dataset: Any, index: int) -> list[Any]:
    torch.manual_seed(0)  # transforms draw
    return list(pytree.tree_leaves(dataset[index]))


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    return bool(one == other) if isinstance(one, bool | int | float | str) else repr(one) == repr(other)
