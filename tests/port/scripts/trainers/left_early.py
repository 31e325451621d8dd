"""A pass that is left before its end: batches that are left out, a limit, a dry run."""

import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(7, 5)
        self.norm = nn.BatchNorm1d(5)
        self.head = nn.Linear(5, 3)

    def forward(self, x):
        return self.head(torch.relu(self.norm(self.hidden(x))))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--limit", type=int, default=6, help="batches of a pass")
    parser.add_argument("--skip", type=int, default=3, help="each so many-th batch is left out")
    parser.add_argument("--log-every", type=int, default=2)
    parser.add_argument("--dry-run", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(5)
    generator = torch.Generator().manual_seed(2)
    points = torch.randn(70, 7, generator=generator)
    kinds = torch.randint(0, 3, (70,), generator=generator)
    loader = DataLoader(TensorDataset(points, kinds), batch_size=8, shuffle=True)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(args.epochs):
        model.train()
        for number, (x, y) in enumerate(loader):
            if number % args.skip == args.skip - 1:
                continue
            if number >= args.limit:
                break
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if number % args.log_every == 0:
                print(f"{epoch}/{number}: {loss.item():.12f}")
                if args.dry_run:
                    break


if __name__ == "__main__":
    main()
