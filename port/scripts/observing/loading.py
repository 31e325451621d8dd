"""Watch DataLoaders: their datasets, order and batches."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from torch.utils.data import DataLoader
from torch.utils.data import dataloader as module_of_loaders
from torch.utils.weak import WeakIdKeyDictionary

from port.scripts.observing.batching import batching
from port.scripts.observing.described import class_name, described, tensor_kind, tensors_in
from port.scripts.observing.lines import caller, name_of, owner, user_frames
from port.scripts.observing.session import Session, is_grad_on, noting_construction, replace_method
from port.scripts.observing.set_epoch_calls import SetEpochCalls

WAITED_FOR = 10.0
"""If the rest of a pass takes at most this many seconds, it runs to its end, so that batch counts are right."""


class Loading:
    """A session's record of the DataLoaders.

    Args:
        session: the script's session.
        ends_early: called before each batch except the first of a pass; True ends the pass there.
    """

    def __init__(self, session: Session, ends_early: Callable[[str, int], bool]) -> None:
        self._session = session
        self._ends_early = ends_early
        self._constructed: Any = WeakIdKeyDictionary()
        self._epochs = SetEpochCalls()
        self._variables: Any = WeakIdKeyDictionary()  # a package's loader → the variable of the one it replaces
        self._names: Any = WeakIdKeyDictionary()
        self._of: Any = WeakIdKeyDictionary()  # iterator → its loader's name
        self._progress: Any = WeakIdKeyDictionary()  # iterator → batches so far, and since when
        self._fetching: Any = WeakIdKeyDictionary()  # iterator → within what it fetches

    def watch(self) -> None:
        """Watch every loader, every pass over one, and every batch."""
        replace_method(DataLoader, "__init__", noting_construction(self._constructed))
        replace_method(DataLoader, "__init__", self._around_construction)
        replace_method(DataLoader, "__iter__", self._around_pass)
        replace_method(module_of_loaders._BaseDataLoaderIter, "__next__", self._around_batch)

    def _around_construction(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def construct(this: Any, *args: Any, **kwargs: Any) -> None:
            original(this, *args, **kwargs)
            self._epochs.see(this)
            frame = caller()
            if frame is not None and owner(frame.f_code.co_filename) == "library":
                self._stand_in(this)

        return construct

    def _stand_in(self, loader: Any) -> None:
        """Treat a loader that a package makes in place of the script's, on the same dataset, as the script's."""
        frames = user_frames()
        for other in list(self._constructed):
            if other is not loader and getattr(other, "dataset", None) is loader.dataset:
                self._constructed[loader] = self._constructed[other]
                self._variables[loader] = self._variables.get(other) or name_of(other, frames)

    def _around_pass(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def begin(this: Any) -> Any:
            if not self._session.is_looking:
                return original(this)
            self._session.is_recording = True
            name = self._name(this)
            self._session.tell("pass", name=name)
            fetching = self._session.at_pass(name, this)
            with self._session.inside(), fetching():
                iterator = original(this)
            self._of[iterator], self._fetching[iterator] = name, fetching
            self._progress[iterator] = (0, time.monotonic())
            return iterator

        return begin

    def _around_batch(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def following(this: Any) -> Any:
            session = self._session
            if not session.is_looking or this not in self._of:
                return original(this)
            name, (count, began) = self._of[this], self._progress[this]
            if count and self._ends_early(name, count) and _seconds_left(this, count, began) > WAITED_FOR:
                session.tell("ended early", name=name, batches=count)
                raise StopIteration
            with session.inside():
                try:
                    with self._fetching[this]():
                        batch = original(this)
                    batch = session.at_batch(name, batch)
                except StopIteration:
                    session.tell("pass ended", name=name, batches=count)
                    raise
            self._progress[this] = (count + 1, began)
            tensors = tensors_in(batch)
            for path, tensor in tensors:
                session.computations.name(tensor, {"batch": name, "part": path})
            parts = {path: tensor_kind(tensor) for path, tensor in tensors}
            session.tell("batch", name=name, parts=parts, grad=is_grad_on())
            return batch

        return following

    def _name(self, loader: Any) -> str:
        known = self._names.get(loader)
        if known is not None:
            return str(known)
        # The outermost name is the one in the loader's scope: a function that takes it has another name for it.
        frames = user_frames()[::-1]
        name = (self._variables.get(loader) or name_of(loader, frames) or "loader").removeprefix("self.")
        taken = set(self._names.values())
        name = next(n for n in (name, *(f"{name}{i}" for i in range(2, 1000))) if n not in taken)
        self._names[loader] = name
        self._session.tell("loader", moves=False, name=name, **self._description(loader))
        self._session.at_loader(name, loader)
        return name

    def _description(self, loader: Any) -> dict[str, Any]:
        dataset = loader.dataset
        inner = dataset
        inside: list[str] = []
        while (held := getattr(inner, "dataset", None)) is not None and len(inside) < 5:
            inner = held
            inside.append(class_name(inner))
        batch_size, drop_last, sampler = batching(loader)
        generator = getattr(loader, "generator", None)
        return {
            "constructed": self._constructed.get(loader),
            "dataset": class_name(dataset),
            "of": inside,
            "length": _length(dataset),
            "batches": _length(loader),
            "transform": _text(getattr(inner, "transform", None)),
            "target_transform": _text(getattr(inner, "target_transform", None)),
            "batch_size": batch_size,
            "sampler": class_name(sampler) if sampler is not None else None,
            "shuffle": class_name(sampler).endswith(".RandomSampler") if sampler is not None else False,
            "drop_last": drop_last,
            "workers": loader.num_workers,
            "collate": described(loader.collate_fn),
            "seeded": generator is not None,
            "epoch_told": self._epochs.of(loader),
        }


def _seconds_left(iterator: Any, count: int, began: float) -> float:
    """The estimated time for the rest of a pass, from its batches so far; infinite if its length is not known."""
    length = _length(iterator)
    return math.inf if length is None else (length - count) * (time.monotonic() - began) / count


def _length(thing: Any) -> int | None:
    try:
        return len(thing)
    except TypeError:
        return None


def _text(transform: Any) -> str | None:
    if transform is None:
        return None
    said = " ".join(str(transform).split())
    return class_name(transform) if " at 0x" in said else said
