"""Points in an order that each epoch draws anew, cut into batches by hand, and evaluated in every other epoch."""

import argparse

import torch
from torch import nn
from torch.nn import functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=6)
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--every", type=int, default=2)
opt = parser.parse_args()
torch.manual_seed(0)
generator = torch.Generator().manual_seed(7)
points = torch.randn(36, 5, generator=generator)
values = points.sum(1, keepdim=True).tanh()
train_x, train_y, test_x, test_y = points[:28], values[:28], points[28:], values[28:]
model = nn.Sequential(nn.Linear(5, 9), nn.BatchNorm1d(9), nn.GELU(), nn.Dropout(0.1), nn.Linear(9, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)

for epoch in range(opt.epochs):
    model.train()
    order = torch.randperm(len(train_x), generator=generator)
    for begin in range(0, len(order), opt.batch_size):
        chosen = order[begin : begin + opt.batch_size]
        x, y = train_x[chosen], train_y[chosen]
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    if epoch % opt.every == 0:
        model.eval()
        with torch.no_grad():
            for begin in range(0, len(test_x), 4):
                x, y = test_x[begin : begin + 4], test_y[begin : begin + 4]
                found = F.mse_loss(model(x), y).item()
        print(f"epoch {epoch}: {found:.6f}")
