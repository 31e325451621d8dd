"""A first batch is looked at before the training; what is printed of it is set under a condition."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(6)
seen_set = TensorDataset(torch.randn(44, 1, 5, 4), torch.randint(0, 3, (44,)))
unseen_set = TensorDataset(torch.randn(20, 1, 5, 4), torch.randint(0, 3, (20,)))
seen_batches, unseen_batches = DataLoader(seen_set, batch_size=8), DataLoader(unseen_set, batch_size=8)
for images, labels in unseen_batches:
    print("one batch:", images.shape, labels.shape, labels.dtype)
    break


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.stack = nn.Sequential(nn.Linear(20, 9), nn.ReLU(), nn.Linear(9, 3))

    def forward(self, x):
        return self.stack(self.flatten(x))


def fit(batches, model, loss_fn, optimizer):
    whole = len(batches.dataset)
    model.train()
    for number, (images, labels) in enumerate(batches):
        loss = loss_fn(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if number % 2 == 0:
            loss, so_far = loss.item(), (number + 1) * len(images)
            print(f"{so_far} of {whole}: {loss:.6f}")


def check(batches, model, loss_fn):
    model.eval()
    total, right = 0.0, 0
    with torch.no_grad():
        for images, labels in batches:
            answer = model(images)
            total += loss_fn(answer, labels).item()
            right += (answer.argmax(1) == labels).type(torch.float).sum().item()
    print(f"right {right / len(batches.dataset):.3f}, loss {total / len(batches):.6f}")


model = Layers()
print(model)
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for round_number in range(2):
    print(f"round {round_number + 1}")
    fit(seen_batches, model, loss_fn, optimizer)
    check(unseen_batches, model, loss_fn)
torch.save(model.state_dict(), "layers.pt")
