"""A trainer in the frameworks' style: a module with its training step and its optimizer, and a class that fits it."""

import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Classifier(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, 3))

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch):
        x, y = batch
        return F.cross_entropy(self(x), y)

    def validation_step(self, batch):
        x, y = batch
        return F.cross_entropy(self(x), y)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
        return optimizer, torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.8)


class Trainer:
    def __init__(self, max_epochs, clip):
        self.max_epochs, self.clip = max_epochs, clip

    def fit(self, module, train_loader, val_loader):
        optimizer, scheduler = module.configure_optimizers()
        for epoch in range(self.max_epochs):
            module.train()
            for batch in train_loader:
                optimizer.zero_grad()
                loss = module.training_step(batch)
                loss.backward()
                nn.utils.clip_grad_norm_(module.parameters(), self.clip)
                optimizer.step()
            scheduler.step()
            self.validate(module, val_loader, epoch)

    @torch.no_grad()
    def validate(self, module, val_loader, epoch):
        module.eval()
        losses = [module.validation_step(batch).item() for batch in val_loader]
        print(f"epoch {epoch}: val_loss {sum(losses) / len(losses):.4f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    points = torch.randn(60, 6, generator=generator)
    labels = points[:, :3].argmax(1)
    train_loader = DataLoader(TensorDataset(points[:44], labels[:44]), batch_size=8, shuffle=True)
    val_loader = DataLoader(TensorDataset(points[44:], labels[44:]), batch_size=8)
    Trainer(args.epochs, 1.0).fit(Classifier(), train_loader, val_loader)


if __name__ == "__main__":
    main()
