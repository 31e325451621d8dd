"""A whole training script in PyTorch, with no line of `port` in it; its twin is what `port script` writes for it.

port script side_by_side/pytorch/whole_script.py -- --epochs 2
port train --torch-script side_by_side/pytorch/whole_script.py --jax-script side_by_side/jax/whole_script/train.py
"""

from __future__ import annotations

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

# %% A model


class Net(nn.Module):
    """Digits of 8 × 8 pixels → 10 classes."""

    def __init__(self, width: int = 16, dropout: float = 0.1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, padding=1)
        self.norm = nn.BatchNorm2d(2 * width)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(2 * width * 4 * 4, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.conv1(images))
        x = F.max_pool2d(F.relu(self.norm(self.conv2(x))), 2)
        return self.head(self.dropout(x.flatten(1)))


# %% Data


def digits(batch_size: int) -> tuple[DataLoader, DataLoader]:
    """Loaders of 1500 digits to train on, and of 297 others."""
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32)[:, None] / 16
    labels = torch.tensor(data.target)
    train = TensorDataset(images[:1500], labels[:1500])
    test = TensorDataset(images[1500:], labels[1500:])
    return DataLoader(train, batch_size, shuffle=True, drop_last=True), DataLoader(test, 100)


# %% Training and evaluation


def evaluate(model: nn.Module, loader: DataLoader) -> None:
    """Print the mean loss and the accuracy."""
    model.eval()
    loss, right, count = 0.0, 0, 0
    with torch.no_grad():
        for images, labels in loader:
            logits = model(images)
            loss += F.cross_entropy(logits, labels, reduction="sum").item()
            right += (logits.argmax(1) == labels).sum().item()
            count += len(labels)
    print(f"test: loss {loss / count:.4f}, accuracy {100 * right / count:.1f} %")


def main() -> None:
    """Train, and evaluate after each epoch."""
    parser = argparse.ArgumentParser(description="Handwritten digits")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--weight-decay", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    train_loader, test_loader = digits(args.batch_size)
    model = Net()
    # Biases and norms are not decayed.
    decayed = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": args.weight_decay}, {"params": others, "weight_decay": 0.0}], lr=args.lr
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs * len(train_loader))
    for epoch in range(args.epochs):
        model.train()
        for images, labels in train_loader:
            loss = F.cross_entropy(model(images), labels, label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}")
        evaluate(model, test_loader)


if __name__ == "__main__":
    main()
