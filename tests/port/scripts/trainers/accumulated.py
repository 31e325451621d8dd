"""Updates of two batches each, shuffled, with noise; two groups, a schedule by epochs, dropout, statistics."""

import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--batch-size", type=int, default=4)
args = parser.parse_args()


class Points(Dataset):
    def __init__(self, count, seed, noise):
        generator = torch.Generator().manual_seed(seed)
        self.points = torch.randn(count, 6, generator=generator)
        self.labels = (self.points.sum(1) > 0).long()
        self.noise = noise

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.points[index] + self.noise * torch.randn(6), self.labels[index]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(6, 16)
        self.norm = nn.BatchNorm1d(16)
        self.dropout = nn.Dropout(0.25)
        self.head = nn.Linear(16, 2)

    def forward(self, x):
        return self.head(self.dropout(F.gelu(self.norm(self.hidden(x)))))


training = DataLoader(Points(40, 1, 0.1), batch_size=args.batch_size, shuffle=True)
held_out = DataLoader(Points(20, 2, 0.0), batch_size=8)
model = Net()
decayed = [p for p in model.parameters() if p.dim() > 1]
others = [p for p in model.parameters() if p.dim() <= 1]
optimizer = torch.optim.AdamW(
    [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], lr=0.02
)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
for epoch in range(args.epochs):
    model.train()
    for number, (x, y) in enumerate(training):
        loss = F.cross_entropy(model(x), y) / 2
        loss.backward()
        if (number + 1) % 2 == 0:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        right = sum((model(x).argmax(1) == y).sum().item() for x, y in held_out)
    print(f"epoch {epoch}: {right} of {len(held_out.dataset)} right")
    scheduler.step()
