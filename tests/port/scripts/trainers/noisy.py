"""A variational autoencoder: noise drawn in forward, in evaluation too, dropout beside it, two losses added."""

import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Noisy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Linear(6, 8)
        self.drop = nn.Dropout(0.2)
        self.mean, self.spread = nn.Linear(8, 3), nn.Linear(8, 3)
        self.decode = nn.Linear(3, 6)

    def forward(self, x):
        h = self.drop(torch.tanh(self.encode(x)))
        mean, spread = self.mean(h), self.spread(h)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * spread)
        return self.decode(z), mean, spread


def loss_function(made, x, mean, spread):
    return F.mse_loss(made, x, reduction="sum") - 0.5 * torch.sum(1 + spread - mean.pow(2) - spread.exp())


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=2)
args = parser.parse_args()
torch.manual_seed(0)
points = torch.randn(40, 6, generator=torch.Generator().manual_seed(3))
train_loader = DataLoader(TensorDataset(points[:32]), batch_size=8, shuffle=True)
test_loader = DataLoader(TensorDataset(points[32:]), batch_size=4)
model = Noisy()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(args.epochs):
    model.train()
    for (x,) in train_loader:
        optimizer.zero_grad()
        made, mean, spread = model(x)
        loss = loss_function(made, x, mean, spread)
        loss.backward()
        optimizer.step()
    model.eval()
    total = 0.0
    with torch.no_grad():
        for (x,) in test_loader:
            made, mean, spread = model(x)
            total += loss_function(made, x, mean, spread).item()
    print(f"epoch {epoch}: {total / 8:.4f}")
