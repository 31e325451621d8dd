"""The options, the data and the epochs of whole_script.py, copied from it."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset


def digits(batch_size: int) -> tuple[DataLoader, DataLoader]:
    """Loaders of 1500 digits to train on, and of 297 others."""
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32)[:, None] / 16
    labels = torch.tensor(data.target)
    train = TensorDataset(images[:1500], labels[:1500])
    test = TensorDataset(images[1500:], labels[1500:])
    return DataLoader(train, batch_size, shuffle=True, drop_last=True), DataLoader(test, 100)


def options() -> argparse.ArgumentParser:
    """The options of whole_script.py."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.003)
    parser.add_argument("--weight-decay", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    return parser


def data(args: argparse.Namespace) -> tuple[dict[str, Any], Iterable[int]]:
    """Its DataLoaders, and its epochs: each is a pass over train_loader."""
    torch.manual_seed(args.seed)
    train_loader, test_loader = digits(args.batch_size)

    return {"training": train_loader, "evaluation": test_loader}, range(args.epochs)
