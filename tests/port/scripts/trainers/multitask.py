"""Two heads, two weighted losses, RMSprop, gradient value clipping, ExponentialLR per epoch; accuracy printed."""

import argparse
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    features: int = 9
    hidden: int = 24
    classes: int = 3
    dropout: float = 0.2


class MultiTask(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.trunk = nn.Sequential(
            nn.Linear(config.features, config.hidden),
            nn.BatchNorm1d(config.hidden),
            nn.ReLU(),
            nn.Dropout(config.dropout),
        )
        self.heads = nn.ModuleDict(
            {"kind": nn.Linear(config.hidden, config.classes), "size": nn.Linear(config.hidden, 1)}
        )

    def forward(self, x):
        h = self.trunk(x)
        return {name: head(h) for name, head in self.heads.items()}


def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--alpha", type=float, default=0.3)
    parser.add_argument("--hidden", type=int, default=24)
    return parser.parse_args()


def run_epoch(model, loader, criteria, args, optimizer=None):
    training = optimizer is not None
    model.train(training)
    total, right, count = 0.0, 0, 0
    with torch.set_grad_enabled(training):
        for x, kind, size in loader:
            out = model(x)
            loss = criteria["kind"](out["kind"], kind) + args.alpha * criteria["size"](out["size"].squeeze(1), size)
            if training:
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_value_(model.parameters(), 0.5)
                optimizer.step()
            total += loss.item() * len(x)
            right += (out["kind"].argmax(1) == kind).sum().item()
            count += len(x)
    return total / count, right / count


def main():
    args = get_args()
    torch.manual_seed(0)
    x = torch.randn(90, 9)
    data = TensorDataset(x, (x[:, 0] > 0).long() + (x[:, 1] > 0).long(), x.sum(1))
    train, test = torch.utils.data.random_split(data, [70, 20])
    train_loader = DataLoader(train, batch_size=10, shuffle=True)
    test_loader = DataLoader(test, batch_size=10)
    model = MultiTask(Config(hidden=args.hidden))
    criteria = {"kind": nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 0.5])), "size": nn.SmoothL1Loss()}
    optimizer = torch.optim.RMSprop(model.parameters(), lr=args.lr, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.95)
    for epoch in range(args.epochs):
        train_loss, train_acc = run_epoch(model, train_loader, criteria, args, optimizer)
        test_loss, test_acc = run_epoch(model, test_loader, criteria, args)
        scheduler.step()
        print(f"{epoch}: train {train_loss:.4f} {train_acc:.3f} test {test_loss:.4f} {test_acc:.3f}")


if __name__ == "__main__":
    main()
