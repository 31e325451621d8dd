"""Mixed precision with GradScaler, clipping behind unscale_, and an average of the weights that is written by hand."""

import copy

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Dropout(0.1), nn.Linear(12, 3))
ema = copy.deepcopy(model)
for p in ema.parameters():
    p.requires_grad_(False)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu")
inputs, targets = torch.randn(32, 6), torch.randint(0, 3, (32,))

for step in range(12):
    optimizer.zero_grad(set_to_none=True)
    chosen = torch.randperm(32)[:8]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = F.cross_entropy(model(inputs[chosen]), targets[chosen])
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
    scaler.step(optimizer)
    scaler.update()
    with torch.no_grad():
        for e, p in zip(ema.parameters(), model.parameters(), strict=True):
            e.mul_(0.9).add_(p, alpha=0.1)
    if step % 6 == 5:
        ema.eval()
        with torch.no_grad():
            print("eval", F.cross_entropy(ema(inputs), targets).item())
