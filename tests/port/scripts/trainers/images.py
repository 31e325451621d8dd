"""A small classifier of images with two kinds of rates: options, a Dataset of its own, an epoch's schedule, a test."""

import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

CLASSES = 4


class Images(Dataset):
    def __init__(self, count, seed):
        generator = torch.Generator().manual_seed(seed)
        self.images = torch.randn(count, 3, 8, 8, generator=generator)
        self.labels = torch.randint(0, CLASSES, (count,), generator=generator)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index], self.labels[index]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, padding=1)
        self.norm = nn.BatchNorm2d(6)
        self.head = nn.Linear(6 * 16, CLASSES)

    def forward(self, x):
        x = F.max_pool2d(torch.relu(self.norm(self.conv(x))), 2)
        return self.head(x.flatten(1))


def train(args, model, device, loader, optimizer, epoch):
    model.train()
    for number, (images, labels) in enumerate(loader):
        images, labels = images.to(device), labels.to(device)
        if args.double:
            images = images.double()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if number % args.log_interval == 0:
            print(f"epoch {epoch}, batch {number}: loss {loss.item():.12f}")


def test(model, loader, double):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for images, labels in loader:
            if double:
                images = images.double()
            total += F.cross_entropy(model(images), labels, reduction="sum").item()
    print(f"test loss {total / len(loader.dataset):.12f}")


def main():
    parser = argparse.ArgumentParser(description="A small classifier")
    parser.add_argument("--batch-size", type=int, default=8, metavar="N", help="images in a batch")
    parser.add_argument("--epochs", type=int, default=2, help="times through the data (100%% of it)")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log-interval", type=int, default=1)
    parser.add_argument("--double", action="store_true", help="in float64")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    device = torch.device("cpu")
    # the last batch is smaller
    loading = {"batch_size": args.batch_size}
    if args.double:
        loading.update({"num_workers": 0})
    train_loader = DataLoader(Images(44, 1), **loading)
    test_loader = DataLoader(Images(20, 2), batch_size=16)
    model = Net().to(device)
    if args.double:
        model.double()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    for epoch in range(1, args.epochs + 1):
        train(args, model, device, train_loader, optimizer, epoch)
        test(model, test_loader, args.double)
        scheduler.step()


if __name__ == "__main__":
    main()
