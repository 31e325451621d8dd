"""Mixed precision with GradScaler, clipping behind unscale_, and an average of the weights, which is evaluated."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
generator = torch.Generator().manual_seed(1)
points = torch.randn(60, 6, generator=generator)
labels = (points.sum(1) > 0).long()
training = DataLoader(TensorDataset(points[:40], labels[:40]), batch_size=8, shuffle=True)
held_out = DataLoader(TensorDataset(points[40:], labels[40:]), batch_size=10)
model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Dropout(0.1), nn.Linear(12, 2))
average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu")

for epoch in range(4):
    model.train()
    for x, y in training:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        scaler.step(optimizer)
        scaler.update()
        average.update_parameters(model)
    average.eval()
    with torch.no_grad():
        total = sum(F.cross_entropy(average(x), y, reduction="sum").item() for x, y in held_out)
    print(f"epoch {epoch}: {total / 20:.4f}")
