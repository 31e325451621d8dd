"""An evaluation that keeps the weights of the best accuracy; a rate that falls once an epoch."""

import os

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(8)
best = 0
train_batches = DataLoader(TensorDataset(torch.randn(40, 2, 6, 7), torch.randint(0, 4, (40,))), 8, shuffle=True)
test_batches = DataLoader(TensorDataset(torch.randn(18, 2, 6, 7), torch.randint(0, 4, (18,))), 6)


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 5, 3, bias=False), nn.BatchNorm2d(5)
        self.out = nn.Linear(5, 4)

    def forward(self, x):
        return self.out(F.relu(self.norm(self.conv(x))).mean((2, 3)))


net = Small()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)


def train(epoch):
    net.train()
    running = 0
    for index, (x, y) in enumerate(train_batches):
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()
        running += loss.item()
        print(index, len(train_batches), "loss: %.3f" % (running / (index + 1)))


def test(epoch):
    global best
    net.eval()
    total = 0
    correct = 0
    count = 0
    with torch.no_grad():
        for x, y in test_batches:
            out = net(x)
            total += criterion(out, y).item()
            _, predicted = out.max(1)
            count += y.size(0)
            correct += predicted.eq(y).sum().item()
    print(f"test loss: {total / len(test_batches):.3f}, right: {correct} of {count}")
    accuracy = 100.0 * correct / count
    if accuracy > best:
        print("saving")
        if not os.path.isdir("kept"):
            os.mkdir("kept")
        torch.save({"net": net.state_dict(), "accuracy": accuracy}, "kept/best.pt")
        best = accuracy


for epoch in range(3):
    train(epoch)
    test(epoch)
    scheduler.step()
