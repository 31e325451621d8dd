"""A training script as people write it, with the convnet of `side_by_side/`, for `port script` to be timed."""

import argparse

import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from side_by_side.pytorch.model import ConvNet


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--examples", type=int, default=60_000)
    parser.add_argument("--epochs", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(0)
    images = torch.randint(0, 256, (args.examples, 1, 28, 28), dtype=torch.uint8)
    dataset = TensorDataset(images, torch.randint(0, 10, (args.examples,)))
    loader = DataLoader(dataset, batch_size=64, shuffle=True, drop_last=True)
    model = ConvNet(1, 10, 0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(args.epochs):
        model.train()
        for number, (images, labels) in enumerate(loader):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            if number % 100 == 0:
                print(epoch, number, loss.item())


if __name__ == "__main__":
    main()
