"""Datasets by name: torchvision's, and scikit-learn's digits in the same form.

Whatever its source, a dataset reaches a loader as `Examples`: uint8 pixels, channels last, and integer labels.
Scaling to [0, 1] is left to the model, so that both sides start from the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from port.data.augment import Augmentation, shift, shift_and_flip
from port.data.digits import Digits
from port.errors import MissingData, UnknownChoice
from port.extras import naming_extras


@dataclass(frozen=True)
class Examples:
    """Images and labels in memory, as a map-style dataset.

    Attributes:
        images: uint8, shape (N, H, W, C).
        labels: int32, shape (N,).
    """

    images: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        return self.images[index], self.labels[index]


@dataclass(frozen=True)
class DatasetInfo:
    """What is known about a dataset before it is loaded."""

    torchvision_name: str | None  # None: it is part of an installed package, with nothing to download
    image_shape: tuple[int, int, int]  # (H, W, C)
    classes: int
    augmentation: Augmentation


DATASETS: dict[str, DatasetInfo] = {
    "digits": DatasetInfo(None, (8, 8, 1), 10, partial(shift, padding=1)),
    "mnist": DatasetInfo("MNIST", (28, 28, 1), 10, partial(shift, padding=2)),
    "fashion-mnist": DatasetInfo("FashionMNIST", (28, 28, 1), 10, partial(shift_and_flip, padding=2)),
    "cifar10": DatasetInfo("CIFAR10", (32, 32, 3), 10, partial(shift_and_flip, padding=4)),
}


def dataset_info(name: str) -> DatasetInfo:
    """Look up a dataset's facts by name; raises `UnknownChoice`."""
    if name not in DATASETS:
        raise UnknownChoice("dataset", name, DATASETS)
    return DATASETS[name]


def load_dataset(name: str, root: Path | str = "data", *, train: bool, download: bool = False) -> Any:
    """Load a torchvision dataset (of PIL images), or `Digits` in the same form.

    Args:
        name: one of `DATASETS`.
        root: torchvision's root folder; unused for digits.
        train: the training split if true, otherwise the test split.
        download: download the files into ``root`` if they are missing.

    Raises:
        UnknownChoice: the dataset does not exist.
        MissingData: the files are not under ``root``, or could not be downloaded; names the command to do so.
    """
    info = dataset_info(name)
    if info.torchvision_name is None:
        return Digits(train=train)

    with naming_extras(f"the dataset {name}"):
        import torchvision.datasets

    make: Callable[..., Any] = getattr(torchvision.datasets, info.torchvision_name)
    try:
        return make(root=str(root), train=train, download=download)
    except (
        RuntimeError,
        OSError,
        EOFError,
        ValueError,
        AssertionError,
    ) as error:  # all the ways in which torchvision fails
        reason = " ".join(str(error).split()).rstrip(".")  # torchvision's messages span several lines
        if download:
            raise MissingData(
                f"could not download {name} into {root}: {reason}. Check the network and that the folder is "
                f"writable, or put torchvision's own files for {info.torchvision_name} under {root} by hand"
            ) from error
        raise MissingData(
            f"{name} was not found under {root} ({reason}). To download it: "
            f"port train --dataset {name} --data-root {root} --download"
        ) from error


def load_examples(name: str, root: Path | str = "data", *, train: bool, download: bool = False) -> Examples:
    """Load a split as arrays in memory; raises as `load_dataset`."""
    dataset = load_dataset(name, root, train=train, download=download)
    images = np.asarray(dataset.data)  # MNIST holds a uint8 tensor (N, H, W), CIFAR-10 an array (N, H, W, C)
    if images.ndim == 3:
        images = images[..., None]
    return Examples(images=images, labels=np.asarray(dataset.targets, dtype=np.int32))
