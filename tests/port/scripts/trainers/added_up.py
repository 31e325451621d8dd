"""An evaluation whose sums stay on their device until all batches are added up."""

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


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    total = torch.zeros((), device=device)
    correct = 0
    seen = 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        out = model(x)
        total += F.cross_entropy(out, y) * x.size(0)
        correct += (out.argmax(1) == y).sum()
        seen += len(x)
    return total.item() / seen, 100.0 * correct.float() / seen


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(5)
    device = torch.device("cpu")
    generator = torch.Generator().manual_seed(2)
    points = torch.randn(70, 7, generator=generator)
    kinds = torch.randint(0, 3, (70,), generator=generator)
    data = TensorDataset(points, kinds)
    loader = DataLoader(data, batch_size=8, shuffle=True)
    test_loader = DataLoader(data, batch_size=16)
    model = Net().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(args.epochs):
        model.train()
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        loss, accuracy = evaluate(model, test_loader, device)
        print(f"{epoch}: {loss:.12f} {accuracy:.2f}%")


if __name__ == "__main__":
    main()
