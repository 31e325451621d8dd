"""Options that shape the model, are handed to its constructor under other names, or make a number of it."""

import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self, inputs, width, layers=2, dropout=0.1, classes=3):
        super().__init__()
        self.first = nn.Linear(inputs, width)
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.drop = nn.Dropout(dropout)
        self.last = nn.Linear(width, classes)
        nn.init.normal_(self.last.weight, std=0.3)

    def forward(self, x):
        x = F.relu(self.first(x))
        for block in self.blocks:
            x = x + self.drop(F.relu(block(x)))
        return self.last(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--hidden", type=int, default=6)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--lr", type=float, default=0.05)
    args = parser.parse_args()
    torch.manual_seed(3)
    x = torch.randn(32, 5)
    y = torch.randint(0, 3, (32,))
    loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
    model = Net(5, 2 * args.hidden, layers=args.layers, dropout=args.dropout)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    for epoch in range(args.epochs):
        model.train()
        for data, target in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(data), target)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}")


main()
