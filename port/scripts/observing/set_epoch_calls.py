"""Record the line of each sampler's last ``sampler.set_epoch(epoch)`` call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch.utils.weak import WeakIdKeyDictionary

from port.scripts.observing.lines import here
from port.scripts.observing.session import replace_method


class SetEpochCalls:
    """Records the set_epoch calls of the samplers of watched loaders."""

    def __init__(self) -> None:
        self._lines: Any = WeakIdKeyDictionary()
        self._seen: set[type] = set()

    def see(self, loader: Any) -> None:
        """Record the set_epoch calls of a loader's samplers from here on."""
        for _, sampler in _samplers(loader):
            cls = next((one for one in type(sampler).__mro__ if "set_epoch" in vars(one)), None)
            if cls is not None and cls not in self._seen:
                self._seen.add(cls)
                replace_method(cls, "set_epoch", self._around)

    def of(self, loader: Any) -> dict[str, Any] | None:
        """The last line that called a sampler's set_epoch, and the sampler: ``sampler``; None if there was none."""
        return next(
            ({"where": self._lines[one], "of": path} for path, one in _samplers(loader) if one in self._lines), None
        )

    def _around(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def set_epoch(this: Any, *args: Any, **kwargs: Any) -> Any:
            self._lines[this] = here()
            return original(this, *args, **kwargs)

        return set_epoch


def _samplers(loader: Any) -> Iterator[tuple[str, Any]]:
    for path in ("sampler", "batch_sampler", "batch_sampler.sampler"):
        found = loader
        for name in path.split("."):
            found = getattr(found, name, None)
        if found is not None:
            yield path, found
