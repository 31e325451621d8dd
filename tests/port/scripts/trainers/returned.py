"""The loss is among what the model returns, in training and in evaluation."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.rnn, self.head = nn.Embedding(13, 6), nn.GRU(6, 7, batch_first=True), nn.Linear(7, 5)

    def forward(self, ids, tags=None):
        states, _ = self.rnn(self.embed(ids))
        logits = self.head(states)
        return logits, None if tags is None else F.cross_entropy(logits.flatten(0, 1), tags.flatten())


torch.manual_seed(9)
train_data = TensorDataset(torch.randint(0, 13, (30, 4)), torch.randint(0, 5, (30, 4)))
test_data = TensorDataset(torch.randint(0, 13, (12, 4)), torch.randint(0, 5, (12, 4)))
train_loader, test_loader = DataLoader(train_data, batch_size=6, shuffle=True), DataLoader(test_data, batch_size=6)
model = Tagger()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for epoch in range(3):
    model.train()
    for ids, tags in train_loader:
        _, loss = model(ids, tags)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    model.eval()
    total = 0.0
    with torch.no_grad():
        for ids, tags in test_loader:
            _, loss = model(ids, tags)
            total += loss.item()
    print(f"epoch {epoch}: {total / len(test_loader):.4f}")
