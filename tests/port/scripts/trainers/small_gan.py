"""A generator and a discriminator, each trained in its turn: on real points and on its own, then through both."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=4, help="times through the data")
parser.add_argument("--double", action="store_true", help="in float64")
args = parser.parse_args()

torch.manual_seed(0)
latent = 5
points = torch.randn(66, 2, generator=torch.Generator().manual_seed(1)) @ torch.tensor([[1.0, 0.5], [0.0, 0.3]]) + 2
loader = DataLoader(TensorDataset(points), batch_size=8, shuffle=True)
G = nn.Sequential(nn.Linear(latent, 16, bias=False), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))
D = nn.Sequential(
    nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 12, bias=False), nn.BatchNorm1d(12), nn.Linear(12, 1)
)
criterion = nn.BCEWithLogitsLoss()
optimizer_d = torch.optim.Adam(D.parameters(), lr=2e-3, betas=(0.5, 0.999))
optimizer_g = torch.optim.Adam(G.parameters(), lr=1e-3, betas=(0.5, 0.999))

for epoch in range(args.epochs):
    for i, (real,) in enumerate(loader):
        D.zero_grad()
        output = D(real).squeeze(1)
        label = torch.full((real.size(0),), 0.9)
        loss_real = criterion(output, label)
        loss_real.backward()
        noise = torch.randn(real.size(0), latent)
        fake = G(noise)
        label.fill_(0.0)
        loss_fake = criterion(D(fake.detach()).squeeze(1), label)
        loss_fake.backward()
        optimizer_d.step()
        G.zero_grad()
        loss_g = criterion(D(fake).squeeze(1), torch.ones(real.size(0)))
        loss_g.backward()
        optimizer_g.step()
        if i % 4 == 0:
            print(f"epoch {epoch} batch {i}: {loss_real.item():.12g} {loss_fake.item():.12g} {loss_g.item():.12g}")
    G.eval()
    with torch.no_grad():
        print("drawn:", G(torch.randn(2, latent)).tolist())
    G.train()
