"""Records of the tensors that are converted: how many NaN they hold, and their fingerprints."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from port.weights.fingerprints import HASH, fingerprint
from port.weights.not_finite import count_nan

SMALL = 2**20
"""Smaller tensors, in bytes, are examined in the same thread: handing them to another would take as long."""

Named = Iterable[tuple[str, np.ndarray]]


@dataclass
class Accounts:
    """Examines each tensor while it is written.

    Attributes:
        entries: the number of entries to note; the last is waited for, so that all is known before the result is done.
        check: called with the fingerprint of each torch tensor that comes back from Flax, before it is cast.
        hash: the fingerprints' hash.
        nan: tensors that hold NaN, and how many.
        fingerprints: of the torch tensors that were converted to Flax, as the way back will return them.
    """

    entries: int
    check: Callable[[str, str], None] | None = None
    hash: str = HASH
    nan: dict[str, int] = field(default_factory=dict)
    fingerprints: dict[str, str] = field(default_factory=dict)
    _looking: Future[None] | None = None
    _threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1), repr=False)

    def wait(self) -> None:
        """Wait for the tensors that are being examined: they are in memory until then.

        Raises:
            PortError: raised by ``check``.
        """
        if self._looking is not None:
            looking, self._looking = self._looking, None
            looking.result()

    def note(self, sources: Named, torchs: Callable[[], Named]) -> None:
        """Examine an entry's tensors.

        Args:
            sources: as they were read.
            torchs: returns those on torch's side.
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
            array_fingerprint = prints.get(id(array)) or prints.setdefault(id(array), fingerprint(array, self.hash))
            if self.check is None:
                self.fingerprints[name] = array_fingerprint
            else:
                self.check(name, array_fingerprint)
