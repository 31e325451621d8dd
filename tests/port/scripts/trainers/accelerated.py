"""By accelerate: it places the batches, goes backward, clips, and wraps the loader, the optimizer and the schedule."""

import argparse

import torch
from accelerate import Accelerator
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(5, 12)
        self.norm = nn.BatchNorm1d(12)
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(12, 3)

    def forward(self, x):
        return self.head(self.dropout(torch.relu(self.norm(self.hidden(x)))))


def points(count, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 5, generator=generator)
    return TensorDataset(x, x[:, :3].argmax(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--batch-size", type=int, default=8)
    args = parser.parse_args()

    torch.manual_seed(4)
    accelerator = Accelerator(cpu=True)
    train_loader = DataLoader(points(40, 1), batch_size=args.batch_size, shuffle=True)
    test_loader = DataLoader(points(16, 2), batch_size=8)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=5, gamma=0.5)
    model, optimizer, train_loader, test_loader, scheduler = accelerator.prepare(
        model, optimizer, train_loader, test_loader, scheduler
    )
    for epoch in range(args.epochs):
        model.train()
        for x, y in train_loader:
            loss = F.cross_entropy(model(x), y)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        model.eval()
        with torch.no_grad():
            right = sum((model(x).argmax(1) == y).sum().item() for x, y in test_loader)
        accelerator.print(f"epoch {epoch}: {right} of {len(test_loader.dataset)} right")


if __name__ == "__main__":
    main()
