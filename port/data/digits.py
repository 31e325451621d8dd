"""Handwritten digits without a download: scikit-learn's `load_digits`, in the form of a torchvision dataset."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from port.extras import naming_extras


class Digits:
    """1,797 images of 8×8 pixels (UCI's test set of handwritten digits), split into 1,438 and 359.

    scikit-learn keeps each writer's digits together, in rounds of the ten digits; every fifth image goes to the test
    split, so that both splits contain all writers and all digits.

    Attributes:
        data: uint8, shape (N, 8, 8); the source's 0…16 scaled to 0…255.
        targets: int64, shape (N,).
    """

    classes = tuple(str(digit) for digit in range(10))

    def __init__(
        self,
        root: Any = None,
        train: bool = True,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        download: bool = False,
    ) -> None:
        """``root`` and ``download`` are accepted, as by every torchvision dataset, and ignored."""
        with naming_extras("the dataset digits"):
            from sklearn.datasets import load_digits

        source = load_digits()
        is_test = np.arange(len(source.target)) % 5 == 4
        chosen = ~is_test if train else is_test
        # 255/16 is exact in float64, and so is the product: the rounding is the same everywhere.
        self.data: np.ndarray = np.rint(source.images[chosen] * (255 / 16)).astype(np.uint8)
        self.targets: np.ndarray = source.target[chosen].astype(np.int64)
        self.train = train
        self.transform = transform
        self.target_transform = target_transform

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """(PIL image in mode "L", label), after the transforms, if any."""
        from PIL import Image

        image: Any = Image.fromarray(self.data[index])
        target: Any = int(self.targets[index])
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return image, target
