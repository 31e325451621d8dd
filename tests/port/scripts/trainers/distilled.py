"""A student learns from a teacher that is not trained, and from labels."""

import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=3)
args = parser.parse_args()
torch.manual_seed(3)
generator = torch.Generator().manual_seed(1)
points = torch.randn(80, 5, generator=generator)
labels = torch.randint(0, 4, (80,), generator=generator)
loader = DataLoader(TensorDataset(points[:64], labels[:64]), batch_size=16, shuffle=True)
held_out = DataLoader(TensorDataset(points[64:], labels[64:]), batch_size=16)
teacher = nn.Sequential(nn.Linear(5, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4)).eval()
student = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 4))
optimizer = torch.optim.RMSprop(student.parameters(), lr=1e-3)
T, ALPHA = 2.0, 0.7
for epoch in range(args.epochs):
    student.train()
    for x, y in loader:
        with torch.no_grad():
            soft = F.softmax(teacher(x) / T, dim=-1)
        logits = student(x)
        distilled = F.kl_div(F.log_softmax(logits / T, dim=-1), soft, reduction="batchmean") * (T * T)
        loss = ALPHA * distilled + (1 - ALPHA) * F.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    student.eval()
    with torch.no_grad():
        right = sum((student(x).argmax(-1) == y).sum().item() for x, y in held_out)
    print(f"epoch {epoch}: {right} of {len(held_out.dataset)} right")
