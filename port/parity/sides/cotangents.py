"""Cotangents that are pulled back through the outputs of both sides."""

from __future__ import annotations

import numpy as np

from port.parity.sides.calls import Arrays, is_inexact


class RandomCotangents:
    """Random nonzero cotangents, with magnitudes from 0.5 to 1.5, equal for every run."""

    def __init__(self, seed: int = 0) -> None:
        self.drawn: Arrays = {}
        self._generator = np.random.default_rng(seed)

    def __call__(self, outputs: Arrays) -> Arrays:
        """Return a cotangent for each floating output; each is drawn once."""
        for name, array in outputs.items():
            if is_inexact(array) and (name not in self.drawn or self.drawn[name].shape != array.shape):
                self.drawn[name] = self._of(array.shape)
                if np.iscomplexobj(array):
                    self.drawn[name] = self.drawn[name] + 1j * self._of(array.shape)
        return {name: self.drawn[name].astype(array.dtype) for name, array in outputs.items() if is_inexact(array)}

    def _of(self, shape: tuple[int, ...]) -> np.ndarray:
        sign = self._generator.choice([-1.0, 1.0], shape)
        return np.asarray(sign * self._generator.uniform(0.5, 1.5, shape))
