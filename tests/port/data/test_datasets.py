"""Every dataset reaches a loader as uint8 pixels, channels last; one that is not there says how to get it."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torchvision.datasets
from PIL import Image
from sklearn.datasets import load_digits

from port.data import DATASETS, Digits, Examples, dataset_info, load_dataset, load_examples, padded_batches
from port.errors import MissingData, UnknownChoice

MNISTS = {"mnist": "MNIST", "fashion-mnist": "FashionMNIST"}


def idx(values: np.ndarray) -> bytes:
    """The idx format: 0, 0, 8 (unsigned byte), number of axes, each axis as a big-endian int32, the bytes."""
    header = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">i4").tobytes()
    return header + values.astype(np.uint8).tobytes()


def pixels(count: int, *shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), np.uint8)


def mnist_files() -> dict[str, np.ndarray]:
    return {
        "train-images-idx3-ubyte": pixels(7, 28, 28),
        "train-labels-idx1-ubyte": np.arange(7),
        "t10k-images-idx3-ubyte": pixels(3, 28, 28, seed=1),
        "t10k-labels-idx1-ubyte": np.array([9, 8, 7]),
    }


@pytest.fixture
def write_mnist(tmp_path: Path) -> Callable[[str], dict[str, np.ndarray]]:
    def write(torchvision_name: str) -> dict[str, np.ndarray]:
        folder = tmp_path / torchvision_name / "raw"
        folder.mkdir(parents=True)
        files = mnist_files()
        for name, values in files.items():
            (folder / name).write_bytes(idx(values))
        return files

    return write


def as_pairs(images: np.ndarray, labels: np.ndarray) -> list[tuple[bytes, int]]:
    return [(image.tobytes(), int(label)) for image, label in zip(images, labels, strict=True)]


class TestDigits:
    def test_the_splits_are_disjoint_and_hold_all_images(self) -> None:
        train, test = Digits(train=True), Digits(train=False)
        assert (len(train), len(test)) == (1438, 359)
        source = load_digits()
        whole = as_pairs(np.rint(source.images * 255 / 16).astype(np.uint8), source.target)
        assert sorted(as_pairs(train.data, train.targets) + as_pairs(test.data, test.targets)) == sorted(whole)
        assert as_pairs(test.data, test.targets) == whole[4::5]

    def test_pixels_fill_a_byte(self) -> None:
        for train in (True, False):
            data = Digits(train=train).data
            assert (data.dtype, data.min(), data.max(), len(np.unique(data))) == (np.uint8, 0, 255, 17)
            assert set(Digits(train=train).targets.tolist()) == set(range(10))

    def test_a_sample_is_an_image_and_a_label(self) -> None:
        digits = Digits()
        image, label = digits[3]
        assert isinstance(image, Image.Image)
        assert (image.mode, image.size) == ("L", (8, 8))
        np.testing.assert_array_equal(np.asarray(image), digits.data[3])
        assert (type(label), label) == (int, digits.targets[3])

    def test_transforms_are_applied(self) -> None:
        digits = Digits(transform=lambda image: np.asarray(image) / 255, target_transform=lambda label: -label)
        image, label = digits[3]
        np.testing.assert_array_equal(image, digits.data[3] / 255)
        assert label == -digits.targets[3] != 0

    @pytest.mark.parametrize(("train", "length"), [(True, 1438), (False, 359)])
    def test_by_name(self, train: bool, length: int, tmp_path: Path) -> None:
        examples = load_examples("digits", tmp_path / "none", train=train)
        assert (examples.images.shape, examples.images.dtype) == ((length, 8, 8, 1), np.uint8)
        assert (examples.labels.shape, examples.labels.dtype) == ((length,), np.int32)
        np.testing.assert_array_equal(examples.images[..., 0], Digits(train=train).data)
        image, label = examples[2]
        assert (image.shape, label) == ((8, 8, 1), Digits(train=train).targets[2])
        assert not (tmp_path / "none").exists()


class TestFiles:
    @pytest.mark.parametrize("name", MNISTS)
    def test_mnist(self, name: str, write_mnist: Callable, tmp_path: Path) -> None:
        files = write_mnist(MNISTS[name])
        for train, prefix in ((True, "train"), (False, "t10k")):
            examples = load_examples(name, tmp_path, train=train)
            assert (examples.images.dtype, examples.labels.dtype) == (np.uint8, np.int32)
            np.testing.assert_array_equal(examples.images, files[f"{prefix}-images-idx3-ubyte"][..., None])
            np.testing.assert_array_equal(examples.labels, files[f"{prefix}-labels-idx1-ubyte"])

    def test_a_torchvision_dataset_gives_images(self, write_mnist: Callable, tmp_path: Path) -> None:
        files = write_mnist("MNIST")
        image, label = load_dataset("mnist", tmp_path, train=False)[1]
        np.testing.assert_array_equal(np.asarray(image), files["t10k-images-idx3-ubyte"][1])
        assert label == 8

    def test_cifar10(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torchvision.datasets.CIFAR10, "_check_integrity", lambda dataset: True)
        monkeypatch.setattr(torchvision.datasets.cifar, "check_integrity", lambda path, md5=None: True)
        folder = tmp_path / "cifar-10-batches-py"
        folder.mkdir()
        images = pixels(12, 3, 32, 32)  # the files hold a plane for each colour
        names = [f"data_batch_{number}" for number in range(1, 6)] + ["test_batch"]
        for number, name in enumerate(names):
            here = slice(2 * number, 2 * number + 2)
            batch = {"data": images[here].reshape(2, -1), "labels": [number, number + 1]}
            (folder / name).write_bytes(pickle.dumps(batch))
        (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": list("abcdefghij")}))

        train, test = (load_examples("cifar10", tmp_path, train=train) for train in (True, False))
        for examples, planes in ((train, images[:10]), (test, images[10:])):
            assert (examples.images.dtype, examples.labels.dtype) == (np.uint8, np.int32)
            np.testing.assert_array_equal(examples.images, planes.transpose(0, 2, 3, 1))
        assert train.labels.tolist() == [0, 1, 1, 2, 2, 3, 3, 4, 4, 5]
        assert test.labels.tolist() == [5, 6]

    @pytest.mark.parametrize("name", DATASETS)
    def test_what_is_known_of_a_dataset_is_so(self, name: str) -> None:
        info = dataset_info(name)
        if info.torchvision_name is not None:
            assert hasattr(torchvision.datasets, info.torchvision_name)
        else:
            assert load_examples(name, train=False).images.shape[1:] == info.image_shape


class TestMissing:
    def test_an_unknown_dataset_lists_the_nearest_first(self) -> None:
        for ask in (dataset_info, lambda name: load_examples(name, train=True)):
            with pytest.raises(UnknownChoice, match="unknown dataset 'cifar'; there are: cifar10, "):
                ask("cifar")
            with pytest.raises(UnknownChoice, match="there are: fashion-mnist, mnist, "):
                ask("fashion_mnist")

    @pytest.mark.parametrize("name", sorted(set(DATASETS) - {"digits"}))
    def test_a_missing_dataset_names_the_command_that_fetches_it(self, name: str, tmp_path: Path) -> None:
        with pytest.raises(MissingData, match="was not found under") as missing:
            load_examples(name, tmp_path, train=True)
        assert f"port train --dataset {name} --data-root {tmp_path} --download" in str(missing.value)

    @pytest.mark.parametrize(
        "rotten", [b"", b"\x00\x00\x08\x03", b"\x00\x00\x03\x01" * 9, b"<html>not found</html>" * 9, b"\xff" * 99]
    )
    @pytest.mark.parametrize("which", ["train-images-idx3-ubyte", "train-labels-idx1-ubyte"])
    def test_files_that_are_something_else(
        self, which: str, rotten: bytes, write_mnist: Callable, tmp_path: Path
    ) -> None:
        write_mnist("MNIST")
        (tmp_path / "MNIST" / "raw" / which).write_bytes(rotten)
        with pytest.raises(MissingData):
            load_examples("mnist", tmp_path, train=True)

    @pytest.mark.parametrize("name", MNISTS)
    def test_a_mirror_that_cannot_be_reached(self, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        nowhere = (tmp_path / "nowhere").as_uri() + "/"
        monkeypatch.setattr(getattr(torchvision.datasets, MNISTS[name]), "mirrors", [nowhere])
        with pytest.raises(
            MissingData, match=f"could not download {name} into .*: Error .*Check the network"
        ) as missing:
            load_examples(name, tmp_path / "data", train=True, download=True)
        assert nowhere in str(missing.value)

    def test_an_archive_that_cannot_be_reached(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torchvision.datasets.CIFAR10, "url", (tmp_path / "nowhere.tar.gz").as_uri())
        with pytest.raises(MissingData, match="could not download cifar10"):
            load_examples("cifar10", tmp_path / "data", train=True, download=True)

    def test_a_folder_that_cannot_be_written(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"")
        with pytest.raises(MissingData, match="could not download mnist"):
            load_examples("mnist", tmp_path / "file", train=True, download=True)

    def test_what_is_fetched_is_there_the_next_time(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def fetch(url: str, download_root: str, filename: str, md5: str) -> None:
            name = filename.removesuffix(".gz")
            (Path(download_root) / name).write_bytes(idx(mnist_files()[name]))

        monkeypatch.setattr(torchvision.datasets.mnist, "download_and_extract_archive", fetch)
        examples = load_examples("mnist", tmp_path, train=True, download=True)
        np.testing.assert_array_equal(examples.images[..., 0], mnist_files()["train-images-idx3-ubyte"])
        assert load_examples("mnist", tmp_path, train=False).labels.tolist() == [9, 8, 7]


class TestPaddedBatches:
    @pytest.mark.parametrize(("length", "batch_size", "batches"), [(10, 4, 3), (8, 4, 2), (3, 4, 1), (5, 1, 5)])
    def test_every_sample_comes_once(self, length: int, batch_size: int, batches: int) -> None:
        examples = Examples(pixels(length, 2, 2, 1), np.arange(length, dtype=np.int32))
        seen = list(padded_batches(examples, batch_size))
        assert len(seen) == batches
        assert {(image.shape, label.shape, mask.shape) for image, label, mask in seen} == {
            ((batch_size, 2, 2, 1), (batch_size,), (batch_size,))
        }
        assert [index for _, labels, mask in seen for index in labels[mask]] == list(range(length))
        np.testing.assert_array_equal(np.concatenate([images[mask] for images, _, mask in seen]), examples.images)

    def test_the_padding_repeats_the_last_sample(self) -> None:
        examples = Examples(pixels(5, 2, 2, 1), np.arange(5, dtype=np.int32))
        *_, (images, labels, mask) = padded_batches(examples, 4)
        assert labels.tolist() == [4, 4, 4, 4]
        assert mask.tolist() == [True, False, False, False]
        np.testing.assert_array_equal(images, examples.images[[4, 4, 4, 4]])
