"""What is noted of the tensors that go over: how many NaN they hold, and their fingerprints."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from port.weights.fingerprints import HASH, fingerprint
from port.weights.not_finite import count_nan

SMALL = 2**20
"""Bytes of a tensor below which it is looked at on the spot: handing it over would take as long."""

Named = Iterable[tuple[str, np.ndarray]]


@dataclass
class Accounts:
    """Looks at each tensor while it is written.

    Attributes:
        entries: how many will be noted; the last is waited for, so that all is known before the result is whole.
        check: is told the fingerprint of each of torch's tensors that comes back from Flax, before it is cast.
        hash: of the fingerprints.
        nan: tensors that hold NaN, and how many.
        fingerprints: of torch's tensors that went over to Flax, as the way back will give them.
    """

    entries: int
    check: Callable[[str, str], None] | None = None
    hash: str = HASH
    nan: dict[str, int] = field(default_factory=dict)
    fingerprints: dict[str, str] = field(default_factory=dict)
    _looking: Future[None] | None = None
    _threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1), repr=False)

    def wait(self) -> None:
        """Wait for the tensors that are looked at: they are in memory until then.

        Raises:
            PortError: what ``check`` found.
        """
        if self._looking is not None:
            looking, self._looking = self._looking, None
            looking.result()

    def note(self, sources: Named, torchs: Callable[[], Named]) -> None:
        """Look at an entry's tensors.

        Args:
            sources: as they were read.
            torchs: gives those on torch's side.
        """
        nbytes = 0
        for name, array in sources:
            nbytes += array.nbytes
            if count := count_nan(array):
                self.nan[name] = count
        self.wait()
        self.entries -= 1
        if self.entries <= 0 or nbytes < SMALL:
            self._fingerprint(torchs())
        else:
            self._looking = self._threads.submit(lambda: self._fingerprint(torchs()))

    def _fingerprint(self, torchs: Named) -> None:
        prints: dict[int, str] = {}  # tied tensors are one array
        for name, array in list(torchs):
            told = prints.get(id(array)) or prints.setdefault(id(array), fingerprint(array, self.hash))
            if self.check is None:
                self.fingerprints[name] = told
            else:
                self.check(name, told)
