"""A student learns from a teacher that is not trained, and from labels; the weight of the teacher grows."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
teacher = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 4)).eval()
student = nn.Linear(5, 4)
optimizer = torch.optim.RMSprop(student.parameters(), lr=1e-3)
loader = DataLoader(TensorDataset(torch.randn(64, 5), torch.randint(0, 4, (64,))), batch_size=16)
T = 2.0
step = 0
for _epoch in range(3):
    student.train()
    for x, y in loader:
        with torch.no_grad():
            soft = teacher(x)
        logits = student(x)
        kd = F.kl_div(F.log_softmax(logits / T, dim=-1), F.softmax(soft / T, dim=-1), reduction="batchmean") * T * T
        weight = min(1.0, step / 10)
        loss = (1 - weight) * F.cross_entropy(logits, y) + weight * kd
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
    student.eval()
    with torch.no_grad():
        print((student(x).argmax(-1) == y).float().mean().item())
