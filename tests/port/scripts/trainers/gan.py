"""A critic that is trained twice for each step of its generator, with a gradient penalty, and clamped."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
G = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
D = nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
opt_g = torch.optim.RMSprop(G.parameters(), lr=1e-3)
opt_d = torch.optim.RMSprop(D.parameters(), lr=2e-3)
loader = DataLoader(TensorDataset(torch.randn(60, 2)), batch_size=6)


def penalty(real, fake):
    alpha = torch.rand(len(real), 1)
    mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    (gradient,) = torch.autograd.grad(D(mixed).sum(), mixed, create_graph=True)
    return ((gradient.norm(2, dim=1) - 1) ** 2).mean()


for _epoch in range(5):
    for i, (real,) in enumerate(loader):
        fake = G(torch.randn(6, 3)).detach()
        loss_d = D(fake).mean() - D(real).mean() + 10 * penalty(real, fake)
        opt_d.zero_grad()
        loss_d.backward()
        opt_d.step()
        with torch.no_grad():
            for p in D.parameters():
                p.clamp_(-1, 1)
        if i % 2 == 1:
            loss_g = -D(G(torch.randn(6, 3))).mean()
            opt_g.zero_grad()
            loss_g.backward()
            opt_g.step()
    G.eval()
    with torch.no_grad():
        print("drawn:", G(torch.randn(2, 3)).tolist())
    G.train()
