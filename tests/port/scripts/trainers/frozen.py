"""A frozen trunk, and a head and a last layer with rates of their own; OneCycleLR."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Points(Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return {"x": torch.randn(6, generator=generator), "y": torch.tensor(index % 2, dtype=torch.float32)}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh())
        self.head = nn.Linear(16, 1)

    def forward(self, x):
        return self.head(self.backbone(x)).squeeze(-1)


net = Net()
for parameter in net.backbone[0].parameters():
    parameter.requires_grad = False
optimizer = torch.optim.AdamW(
    [{"params": net.backbone[2].parameters(), "lr": 1e-4}, {"params": net.head.parameters(), "lr": 1e-2}]
)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=[1e-3, 1e-1], total_steps=20)
loader = DataLoader(Points(), batch_size=8, shuffle=True, num_workers=1)
criterion = nn.BCEWithLogitsLoss()
for _epoch in range(4):
    net.train()
    for batch in loader:
        loss = criterion(net(batch["x"]), batch["y"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
    net.eval()
    with torch.inference_mode():
        print("held out:", criterion(net(torch.ones(3, 6)), torch.ones(3)).item())
