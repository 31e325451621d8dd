"""A loss that is summed and divided by the batch's length, whose last batch is a smaller one."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=3)
args = parser.parse_args()
torch.manual_seed(0)
data = TensorDataset(torch.randn(70, 6), torch.randint(0, 3, (70,)))
loader = DataLoader(data, batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for epoch in range(args.epochs):
    for images, labels in loader:
        optimizer.zero_grad()
        count = images.size(0)
        loss = F.cross_entropy(model(images), labels, reduction="sum") / len(images)
        loss = loss + 0.01 * (model[0].weight ** 2).sum() / count
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
