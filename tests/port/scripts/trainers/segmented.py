"""Segmentation: a small UNet, BCE plus dice, AdamW with OneCycleLR stepped each batch, best checkpoint saved."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, random_split


class Shapes(Dataset):
    def __init__(self, n=48, size=16):
        g = torch.Generator().manual_seed(3)
        self.x = torch.rand(n, 3, size, size, generator=g)
        self.y = (self.x.mean(1, keepdim=True) > 0.5).float()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"image": self.x[i], "mask": self.y[i]}


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.down1 = block(3, width)
        self.down2 = block(width, width * 2)
        self.up = nn.ConvTranspose2d(width * 2, width, 2, stride=2)
        self.out = nn.Conv2d(width * 2, 1, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        return self.out(torch.cat([a, self.up(b)], dim=1))


def dice_loss(logits, target, eps=1.0):
    probs = torch.sigmoid(logits)
    inter = (probs * target).sum(dim=(1, 2, 3))
    union = probs.sum(dim=(1, 2, 3)) + target.sum(dim=(1, 2, 3))
    return (1 - (2 * inter + eps) / (union + eps)).mean()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--lr", type=float, default=1e-2)
    p.add_argument("--batch-size", type=int, default=8)
    p.add_argument("--out", default="best.pt")
    args = p.parse_args()
    torch.manual_seed(7)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    full = Shapes()
    train_set, val_set = random_split(full, [40, 8], generator=torch.Generator().manual_seed(1))
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, num_workers=0, pin_memory=False)
    val_loader = DataLoader(val_set, batch_size=4)
    model = UNet().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-2)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=args.lr, epochs=args.epochs, steps_per_epoch=len(train_loader)
    )
    bce = nn.BCEWithLogitsLoss()
    best = float("inf")
    for epoch in range(args.epochs):
        model.train()
        running = 0.0
        for batch in train_loader:
            image, mask = batch["image"].to(device), batch["mask"].to(device)
            optimizer.zero_grad(set_to_none=True)
            logits = model(image)
            loss = bce(logits, mask) + 0.5 * dice_loss(logits, mask)
            loss.backward()
            optimizer.step()
            scheduler.step()
            running += loss.item() * image.size(0)
        model.eval()
        val = 0.0
        with torch.inference_mode():
            for batch in val_loader:
                logits = model(batch["image"].to(device))
                val += dice_loss(logits, batch["mask"].to(device)).item()
        val /= len(val_loader)
        print(f"epoch {epoch}: train {running / len(train_set):.4f} val dice {val:.4f} lr {scheduler.get_last_lr()[0]}")
        if val < best:
            best = val
            torch.save({"model": model.state_dict(), "epoch": epoch}, args.out)


if __name__ == "__main__":
    main()
