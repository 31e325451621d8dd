"""Two recurrent cells that go on with waves, in float64, on all of the data at once: LBFGS, with a closure."""

import argparse

import torch
from torch import nn, optim


class Waves(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.LSTMCell(1, 6)
        self.second = nn.LSTMCell(6, 6)
        self.linear = nn.Linear(6, 1)

    def forward(self, x):
        h, c = torch.zeros(x.size(0), 6, dtype=x.dtype), torch.zeros(x.size(0), 6, dtype=x.dtype)
        h2, c2 = torch.zeros(x.size(0), 6, dtype=x.dtype), torch.zeros(x.size(0), 6, dtype=x.dtype)
        outputs = []
        for part in x.split(1, dim=1):
            h, c = self.first(part, (h, c))
            h2, c2 = self.second(h, (h2, c2))
            outputs.append(self.linear(h2))
        return torch.cat(outputs, dim=1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=14, help="steps of LBFGS")
    parser.add_argument("--search", default=None, help="its line search")
    args = parser.parse_args()
    torch.manual_seed(0)
    waves = torch.sin(torch.arange(12, dtype=torch.float64) / 3 + torch.arange(5, dtype=torch.float64)[:, None])
    given = waves[:, :-1]
    target = waves[:, 1:]
    model = Waves()
    model.double()
    criterion = nn.MSELoss()
    optimizer = optim.LBFGS(model.parameters(), lr=0.8, max_iter=2, line_search_fn=args.search)
    for i in range(args.steps):

        def closure():
            optimizer.zero_grad()
            loss = criterion(model(given), target)
            loss.backward()
            return loss

        loss = optimizer.step(closure)
        print(f"step {i}: {loss.item():.12g}")
        with torch.no_grad():
            print("test loss:", criterion(model(given[:2]), target[:2]).item())
