"""SimCLR-like: two noisy views, projection head, InfoNCE; cosine schedule; weight decay without biases."""

import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset


class Views(Dataset):
    def __init__(self, n):
        self.data = torch.randn(n, 20, generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        x = self.data[index]
        return x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)


class Encoder(nn.Module):
    def __init__(self, dim=16, proj=8):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(20, dim), nn.LayerNorm(dim), nn.GELU())
        self.projector = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, proj))

    def forward(self, x):
        return F.normalize(self.projector(self.backbone(x)), dim=-1)


def info_nce(z1, z2, temperature=0.2):
    z = torch.cat([z1, z2])
    sim = z @ z.t() / temperature
    n = z1.size(0)
    sim.fill_diagonal_(float("-inf"))
    targets = torch.cat([torch.arange(n) + n, torch.arange(n)])
    return F.cross_entropy(sim, targets)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", default=2, type=int)
    ap.add_argument("--bs", default=8, type=int)
    ap.add_argument("--lr", default=3e-3, type=float)
    args = ap.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(Views(64), batch_size=args.bs, shuffle=True, drop_last=True)
    net = Encoder()
    decay = [p for n, p in net.named_parameters() if p.ndim > 1]
    rest = [p for n, p in net.named_parameters() if p.ndim <= 1]
    opt = torch.optim.AdamW([{"params": decay, "weight_decay": 1e-4}, {"params": rest, "weight_decay": 0}], lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=args.epochs * len(loader))
    for epoch in range(args.epochs):
        total = 0
        for v1, v2 in loader:
            z1, z2 = net(v1), net(v2)
            loss = info_nce(z1, z2)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            total += loss.item()
        print(epoch, total / len(loader))
