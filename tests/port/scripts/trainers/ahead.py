"""A step without an end, but for a break; numpy draws its batches, each made while the one before is trained on."""

import argparse

import numpy as np
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--max-iters", type=int, default=24)
parser.add_argument("--lr", type=float, default=0.02)
args = parser.parse_args()
torch.manual_seed(0)
np.random.seed(5)  # noqa: NPY002
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2))
values = np.sin(np.arange(400, dtype=np.float32)).reshape(100, 4)
criterion = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)


def draw(rows):
    chosen = np.random.randint(0, len(rows) - 1, 6)  # noqa: NPY002
    return torch.from_numpy(rows[chosen]), torch.from_numpy(rows[chosen + 1][:, :2])


iter_num, best = 0, None
inputs, targets = draw(values[:80])
while True:
    loss = criterion(model(inputs), targets)
    inputs, targets = draw(values[:80])
    optimizer.zero_grad()
    loss.backward()
    for group in optimizer.param_groups:
        group["lr"] = args.lr * 0.9 ** (iter_num // 5)
    optimizer.step()
    iter_num += 1
    if iter_num % 5 == 0:
        model.eval()
        with torch.no_grad():
            for begin in range(80, 100, 10):
                x, y = torch.from_numpy(values[begin : begin + 7]), torch.from_numpy(values[begin : begin + 7, :2])
                found = criterion(model(x), y).item()
        model.train()
        best = found if best is None else min(best, found)
        print(f"{iter_num}: {found:.6f}, best {best:.6f}")
    if iter_num >= args.max_iters:
        break
