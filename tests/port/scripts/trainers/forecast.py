"""Forecast a series with an LSTM; Adam, ReduceLROnPlateau on the validation loss."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, WINDOW, HIDDEN = 5, 12, 10
torch.manual_seed(1)
series = np.sin(np.linspace(0, 30, 140)) + 0.1 * np.random.RandomState(0).randn(140)
x = np.stack([series[i : i + WINDOW] for i in range(len(series) - WINDOW)])[..., None].astype(np.float32)
y = series[WINDOW:].astype(np.float32)[:, None]
train = TensorDataset(torch.from_numpy(x[:100]), torch.from_numpy(y[:100]))
valid = TensorDataset(torch.from_numpy(x[100:]), torch.from_numpy(y[100:]))
train_loader = DataLoader(train, batch_size=25, shuffle=True)
valid_loader = DataLoader(valid, batch_size=16)


class Forecaster(nn.Module):
    def __init__(self, hidden_size=HIDDEN, num_layers=2):
        super().__init__()
        self.hidden_size, self.num_layers = hidden_size, num_layers
        self.lstm = nn.LSTM(1, hidden_size, num_layers, batch_first=True, dropout=0.1)
        self.fc = nn.Linear(hidden_size, 1)

    def forward(self, x):
        h0 = torch.zeros(self.num_layers, x.size(0), self.hidden_size)
        c0 = torch.zeros(self.num_layers, x.size(0), self.hidden_size)
        out, _ = self.lstm(x, (h0, c0))
        return self.fc(out[:, -1, :])


model = Forecaster()
loss_function = nn.HuberLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0, threshold=0.5)


def train_one_epoch():
    model.train(True)
    running_loss = 0.0
    for _batch_index, batch in enumerate(train_loader):
        x_batch, y_batch = batch[0], batch[1]
        output = model(x_batch)
        loss = loss_function(output, y_batch)
        running_loss += loss.item()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"train loss {running_loss / len(train_loader):.4f}")


def validate_one_epoch():
    model.train(False)
    running_loss = 0.0
    for batch in valid_loader:
        with torch.no_grad():
            running_loss += loss_function(model(batch[0]), batch[1]).item()
    avg = running_loss / len(valid_loader)
    print(f"valid loss {avg:.4f}")
    return avg


for _epoch in range(EPOCHS):
    train_one_epoch()
    scheduler.step(validate_one_epoch())
