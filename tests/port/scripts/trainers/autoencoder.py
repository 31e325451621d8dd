"""An autoencoder with two losses added: what it gives back, and how much of its code is used. Cosine rates."""

import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--lr", type=float, default=2e-3)
parser.add_argument("--sparse", type=float, default=1e-3, help="weight of the code's size")
args = parser.parse_args()


class Images(Dataset):
    def __init__(self, count, seed):
        self.images = torch.rand(count, 1, 12, 12, generator=torch.Generator().manual_seed(seed))

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index]


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, 4, 3, 2, 1), nn.ELU(), nn.Conv2d(4, 8, 3, 2, 1), nn.ReLU())
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(8, 4, 4, 2, 1), nn.ELU(), nn.ConvTranspose2d(4, 1, 4, 2, 1), nn.Sigmoid()
        )

    def forward(self, x):
        code = self.encoder(x)
        return self.decoder(code), code


def main():
    torch.manual_seed(0)
    training = DataLoader(Images(40, 1), batch_size=8, shuffle=True)
    held_out = DataLoader(Images(16, 2), batch_size=8)
    model = Autoencoder()
    optimizer = torch.optim.NAdam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs)
    for epoch in range(args.epochs):
        model.train()
        for images in training:
            given, code = model(images)
            reconstruction = F.mse_loss(given, images, reduction="sum") / len(images)
            loss = reconstruction + args.sparse * code.abs().mean(dim=0).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        scheduler.step()
        model.eval()
        with torch.no_grad():
            total = sum(F.mse_loss(model(images)[0], images, reduction="sum").item() for images in held_out)
        print(f"epoch {epoch}: {total / len(held_out.dataset):.4f}")


if __name__ == "__main__":
    main()
