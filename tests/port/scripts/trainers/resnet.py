"""A residual network on images: SGD with momentum, multi-step rates, label smoothing, an average of weights."""

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x):
        return torch.relu(x + self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x))))))


def build(channels=8, classes=5):
    return nn.Sequential(
        nn.Conv2d(3, channels, 3, padding=1), Residual(channels), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(channels, classes),
    )  # fmt: skip


def main():
    torch.manual_seed(0)
    images, labels = torch.randn(50, 3, 12, 12), torch.randint(0, 5, (50,))
    train = DataLoader(TensorDataset(images[:42], labels[:42]), batch_size=8, shuffle=True, drop_last=True)
    test = DataLoader(TensorDataset(images[42:], labels[42:]), batch_size=4)
    net = build()
    ema = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[2, 6], gamma=0.1)
    best = 0.0
    for epoch in range(3):
        net.train()
        for images, labels in train:
            optimizer.zero_grad()
            loss = criterion(net(images), labels)
            loss.backward()
            optimizer.step()
            scheduler.step()
            ema.update_parameters(net)
        ema.eval()
        with torch.no_grad():
            right = sum((ema(images).argmax(1) == labels).sum().item() for images, labels in test)
        print(f"epoch {epoch}: accuracy {right / 8:.2f}")
        if right >= best:
            best = right
            torch.save({"epoch": epoch, "model": net.state_dict(), "optimizer": optimizer.state_dict()}, "best.pt")


if __name__ == "__main__":
    main()
