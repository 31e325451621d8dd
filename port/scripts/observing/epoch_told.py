"""Samplers that are told which epoch it is, ``sampler.set_epoch(epoch)``: the line that has told each last."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch.utils.weak import WeakIdKeyDictionary

from port.scripts.observing.lines import here
from port.scripts.observing.session import replace_method


class EpochTold:
    """Sees the samplers of the loaders that it is shown."""

    def __init__(self) -> None:
        self._told: Any = WeakIdKeyDictionary()
        self._seen: set[type] = set()

    def see(self, loader: Any) -> None:
        """From here on its samplers are seen when they are told."""
        for _, sampler in _samplers(loader):
            cls = next((one for one in type(sampler).__mro__ if "set_epoch" in vars(one)), None)
            if cls is not None and cls not in self._seen:
                self._seen.add(cls)
                replace_method(cls, "set_epoch", self._around)

    def of(self, loader: Any) -> dict[str, Any] | None:
        """The line that has told a sampler of a loader, and which of them: ``sampler``; None where none was told."""
        return next(
            ({"where": self._told[one], "of": path} for path, one in _samplers(loader) if one in self._told), None
        )

    def _around(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def set_epoch(this: Any, *args: Any, **kwargs: Any) -> Any:
            self._told[this] = here()
            return original(this, *args, **kwargs)

        return set_epoch


def _samplers(loader: Any) -> Iterator[tuple[str, Any]]:
    for path in ("sampler", "batch_sampler", "batch_sampler.sampler"):
        found = loader
        for name in path.split("."):
            found = getattr(found, name, None)
        if found is not None:
            yield path, found
