"""A test split in batches of equal size: the last is padded and masked, never dropped."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from port.data.datasets import Examples


def padded_batches(examples: Examples, batch_size: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield every sample once, in order.

    Yields images uint8 (batch_size, H, W, C), labels int32 (batch_size,) and a boolean mask (batch_size,), True
    for a real sample. The padding repeats the split's last sample, so that no layer sees unusual values.
    """
    for start in range(0, len(examples), batch_size):
        places = np.arange(start, start + batch_size)
        real = places < len(examples)
        places = np.minimum(places, len(examples) - 1)
        yield examples.images[places], examples.labels[places], real
