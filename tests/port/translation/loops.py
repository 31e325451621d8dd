"""Models that go along time in Python, each in a way of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn


class Cell(nn.Module):
    """An LSTM's cell by hand."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.x = nn.Linear(inputs, 4 * hidden)
        self.h = nn.Linear(hidden, 4 * hidden, bias=False)

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        h, c = state
        i, f, g, o = (self.x(x) + self.h(h)).chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, c


class ByHand(nn.Module):
    """Two states; the slices by unbind, the outputs in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.out = Cell(3, 5), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = x.new_zeros(x.shape[0], 5)
        c = torch.zeros_like(h)
        outs = []
        for x_t in x.unbind(1):
            h, c = self.cell(x_t, (h, c))
            outs.append(h)
        return self.out(torch.stack(outs, dim=1)), c


class Gated(nn.Module):
    """A cell of torch's; the last state alone."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(3, 5)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(x.shape[0], 5)
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
        return h


class SelectiveScan(nn.Module):
    """Three tensors gone along together, in no module of their own."""

    def __init__(self, width: int = 4, states: int = 3) -> None:
        super().__init__()
        self.A, self.D = nn.Parameter(torch.rand(width, states)), nn.Parameter(torch.rand(width))
        self.project = nn.Linear(width, 2 * states + width)

    def forward(self, u: Tensor) -> Tensor:
        width, states = self.A.shape
        delta, B, C = self.project(u).split([width, states, states], -1)
        delta = nn.functional.softplus(delta)
        deltaA = torch.exp(torch.einsum("bld,dn->bldn", delta, -torch.exp(self.A)))
        deltaB_u = (delta * u).unsqueeze(-1) * B.unsqueeze(2)
        x = torch.zeros((u.shape[0], width, states))
        ys = []
        for i in range(u.shape[1]):
            x = deltaA[:, i] * x + deltaB_u[:, i]
            y = torch.einsum("bdn,bn->bd", x, C[:, i, :])
            ys.append(y)
        y = torch.stack(ys, dim=1)
        return y + u * self.D


class ConvCell(nn.Module):
    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.hidden, self.conv = hidden, nn.Conv2d(inputs + hidden, 4 * hidden, 3, padding=1)

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        h, c = state
        i, f, o, g = torch.split(self.conv(torch.cat([x, h], dim=1)), self.hidden, dim=1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, c


class ConvLSTM(nn.Module):
    """States that are images: channels last in JAX, within the loop and outside; outputs joined along time."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = ConvCell(3, 4), nn.Conv2d(4, 2, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        b, t, _, height, width = x.shape
        h, c = torch.zeros(b, 4, height, width), torch.zeros(b, 4, height, width)
        outs = []
        for i in range(t):
            h, c = self.cell(x[:, i], (h, c))
            outs.append(h.unsqueeze(1))
        return torch.cat(outs, 1), self.head(h)


class Decoder(nn.Module):
    """It reads its own output again, for so many steps as it was told: no input is as long."""

    def __init__(self, steps: int = 7) -> None:
        super().__init__()
        self.steps, self.cell, self.out = steps, nn.LSTMCell(4, 5), nn.Linear(5, 4)

    def forward(self, h: Tensor) -> Tensor:
        c = torch.zeros_like(h)
        y = h.new_zeros(h.shape[0], 4)
        ys = []
        for _ in range(self.steps):
            h, c = self.cell(y, (h, c))
            y = self.out(h)
            ys.append(y)
        return torch.stack(ys, 1)


class Bidirectional(nn.Module):
    """Forwards, and backwards."""

    def __init__(self) -> None:
        super().__init__()
        self.forwards, self.backwards = nn.GRUCell(3, 4), nn.GRUCell(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        h = x.new_zeros(x.size(0), 4)
        ahead, back = [], []
        for t in range(x.size(1)):
            h = self.forwards(x[:, t], h)
            ahead.append(h)
        h = x.new_zeros(x.size(0), 4)
        for t in reversed(range(x.size(1))):
            h = self.backwards(x[:, t], h)
            back.append(h)
        return torch.cat([torch.stack(ahead, 1), torch.stack(back[::-1], 1)], -1)


class TwoLayers(nn.Module):
    """Time first; the second loop takes the list that the first one gives."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.RNNCell(3, 4), nn.RNNCell(4, 5)

    @staticmethod
    def run(cell: nn.Module, xs: Iterable[Tensor], h: Tensor) -> tuple[list[Tensor], Tensor]:
        outs = []
        for x in xs:
            h = cell(x, h)
            outs.append(h)
        return outs, h

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        outs, first = self.run(self.first, x.unbind(0), x.new_zeros(x.shape[1], 4))
        outs, second = self.run(self.second, outs, x.new_zeros(x.shape[1], 5))
        return torch.stack(outs), first, second


class Elman(nn.Module):
    """There is no state before the first step, which does less."""

    def __init__(self) -> None:
        super().__init__()
        self.x, self.h = nn.Linear(3, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor, h: Tensor | None = None) -> Tensor:
        for t in range(x.shape[1]):
            new = self.x(x[:, t])
            if h is not None:
                new = new + self.h(h)
            h = torch.tanh(new)
        assert h is not None
        return h


class Called(nn.Module):
    """The loop is in a module that it holds."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.out = Elman(), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.out(self.rnn(x))
        return out


class Filled(nn.Module):
    """The outputs are written into a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        h, out = torch.zeros(x.shape[0], 4), torch.zeros(x.shape[0], x.shape[1], 4)
        for t in range(x.shape[1]):
            h = self.cell(x[:, t, :], h)
            out[:, t, :] = h
        return out


class Counted(nn.Module):
    """The number of the step is read, a table's rows, a buffer that is written; the states before each step, and one of
    them alone, are given."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.decay = nn.Linear(3, 4), nn.Parameter(torch.rand(4))
        self.places = nn.Parameter(torch.randn(12, 4))
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        h = self.linear(x[:, 0])
        states, before = [h], []
        for t in range(1, x.shape[1]):
            before.append(h)
            h = h * torch.sigmoid(self.decay) + self.linear(x[:, t : t + 1]).squeeze(1) * t + self.places[t]
            self.seen = self.seen + h.mean(0)
            states.append(h)
        return torch.stack(states, 1), torch.stack(before), states[2]


class Dropping(nn.Module):
    """It drops something else at each step."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.drop = nn.GRUCell(3, 4), nn.Dropout(0.3)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(x.shape[0], 4)
        outs = []
        for t in range(x.shape[1]):
            h = self.cell(self.drop(x[:, t]), h)
            outs.append(h)
        return torch.stack(outs, 1)


class Normalised(nn.Module):
    """Each step updates running statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.norm = nn.RNNCell(3, 4), nn.BatchNorm1d(4)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(x.shape[0], 4)
        for t in range(x.shape[1]):
            h = self.norm(self.cell(x[:, t], h))
        return h


class TwoBack(nn.Module):
    """Each step reads what the last but one has left."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        states = [x.new_zeros(x.shape[0], 4), x.new_ones(x.shape[0], 4)]
        for t in range(x.shape[1]):
            states.append(torch.tanh(self.linear(x[:, t]) + 0.3 * states[-1] - 0.5 * states[-2]))
        return torch.stack(states[2:], 1)


class Translator(nn.Module):
    """Two inputs, each as long as it likes: one is read, then the other with what was read."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.GRUCell(3, 4), nn.GRUCell(5, 4)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        h = source.new_zeros(source.shape[0], 4)
        for x in source.unbind(1):
            h = self.encoder(x, h)
        outs = []
        for t in range(target.shape[1]):
            h = self.decoder(target[:, t], h)
            outs.append(h)
        return torch.stack(outs, 1)


@dataclass(frozen=True)
class Model:
    """A model, the shape of its input, and the axis that it goes along."""

    made: Callable[[], nn.Module]
    shape: tuple[int, ...]
    time: int | None


MODELS = {
    "by hand": Model(ByHand, (2, 6, 3), 1),
    "gated": Model(Gated, (2, 6, 3), 1),
    "selective scan": Model(SelectiveScan, (2, 6, 4), 1),
    "images": Model(ConvLSTM, (2, 6, 3, 7, 5), 1),
    "decoder": Model(Decoder, (3, 5), None),
    "bidirectional": Model(Bidirectional, (2, 6, 3), 1),
    "two layers": Model(TwoLayers, (6, 2, 3), 0),
    "called": Model(Called, (2, 6, 3), 1),
    "filled": Model(Filled, (2, 6, 3), 1),
    "counted": Model(Counted, (2, 6, 3), 1),
    "dropping": Model(Dropping, (2, 6, 3), 1),
    "normalised": Model(Normalised, (4, 6, 3), 1),
}
