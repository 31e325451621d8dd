"""Reading and writing by index: gather, scatter, index_add, advanced indexing, orders, counts."""

from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from .example import Example, booleans, floats, given, integers


class GraphConvolution(nn.Module):
    """Messages along edges are gathered, and added up where they arrive; a batch shares the graph."""

    def __init__(self, n_in: int = 4, n_out: int = 3) -> None:
        super().__init__()
        self.lin = nn.Linear(n_in, n_out, bias=False)
        self.bias = nn.Parameter(torch.zeros(n_out))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        row, col = edge_index
        n = x.size(1)
        deg = torch.zeros(n).scatter_add_(0, col, torch.ones(col.numel()))
        deg_inv_sqrt = deg.pow(-0.5)
        deg_inv_sqrt = deg_inv_sqrt.masked_fill(deg_inv_sqrt == float("inf"), 0.0)
        norm = deg_inv_sqrt[row] * deg_inv_sqrt[col]

        h = self.lin(x)
        messages = h[:, row] * norm[:, None]
        out = torch.zeros_like(h).index_add(1, col, messages)
        return out + self.bias


class EdgePooling(nn.Module):
    """Sums, means and maxima by segment."""

    def __init__(self, dim: int = 3, segments: int = 4) -> None:
        super().__init__()
        self.segments = segments
        self.mlp = nn.Linear(dim, dim)

    def forward(self, x: Tensor, segment: Tensor) -> tuple[Tensor, ...]:
        x = self.mlp(x)  # (B, N, D)
        index = segment.unsqueeze(-1).expand_as(x)
        shape = (x.size(0), self.segments, x.size(-1))
        total = x.new_zeros(shape).scatter_add(1, index, x)
        count = torch.zeros(shape).scatter_add_(1, index, torch.ones_like(x))
        mean = total / count.clamp(min=1)
        largest = x.new_full(shape, -10.0).scatter_reduce(1, index, x, reduce="amax", include_self=True)
        back = torch.gather(mean, 1, index)
        return total, mean, largest, x - back


class Pick(nn.Module):
    """Advanced indexing in its forms."""

    def __init__(self, dim: int = 5) -> None:
        super().__init__()
        self.fc = nn.Linear(dim, dim)
        self.register_buffer("order", torch.tensor([3, 0, 4, 1]), persistent=False)

    def forward(self, x: Tensor, idx: Tensor) -> tuple[Tensor, ...]:
        x = self.fc(x)  # (B, T, D)
        n = x.shape[0]
        last = x[torch.arange(n), idx]  # one step of each sequence
        single = x[torch.arange(n), idx, -2]
        columns = x[..., self.order]
        chosen = x.index_select(1, idx)
        corners = x[:, [0, -1]][:, :, [[0, 1], [3, 2]]]
        mixed = x[:, idx, 1:4]
        apart = x[idx % n, :, self.order[:n]]  # the axis of the indices comes first
        new = x[:, None, -1, ..., ::3]
        return last, single, columns, chosen, corners, mixed, apart, new


class WriteByIndex(nn.Module):
    def __init__(self, dim: int = 4) -> None:
        super().__init__()
        self.fc = nn.Linear(dim, dim)

    def forward(self, x: Tensor, idx: Tensor) -> Tensor:
        y = self.fc(x)
        rows = torch.arange(y.shape[0])
        y[rows, idx] = 0.5
        y[rows, (idx + 1) % 4] += x[:, 0]
        y = y.scatter(1, idx[:, None], -1.0)
        y = y.scatter(-1, idx[:, None].flip(0), x[:, 1:3])
        y.index_fill_(1, torch.tensor([2]), 0.25)
        y = y.index_copy(1, torch.tensor([3, 0]), x[:, :2] * y[:, :2])
        y.index_put_((rows, idx), x[:, 3], accumulate=True)
        return y


class Orders(nn.Module):
    """topk, sort, argsort, argmax, kthvalue, cumulative operations."""

    def __init__(self, dim: int = 6) -> None:
        super().__init__()
        self.score = nn.Linear(dim, 1)
        self.mix = nn.Linear(dim, 3)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        scores = self.score(x).squeeze(-1)  # (B, T)
        top, where = scores.topk(2, dim=1)
        best = torch.gather(x, 1, where.unsqueeze(-1).expand(-1, -1, x.size(-1)))
        ordered, order = torch.sort(scores, dim=-1, descending=True)
        rank = order.argsort(dim=-1)
        probabilities = ordered.softmax(-1)
        # nucleus: the smallest set whose probabilities sum up to 0.7
        nucleus = (probabilities.cumsum(-1) - probabilities) < 0.7
        low, _ = scores.min(dim=1)
        return {
            "best": self.mix(best) * torch.sigmoid(top)[..., None],
            "kept": ordered.masked_fill(~nucleus, -1e4).logsumexp(dim=-1),
            "rank": rank,
            "greedy": F.one_hot(scores.argmax(dim=-1), num_classes=scores.shape[1]).float(),
            "steps": torch.cumprod(1 - torch.sigmoid(scores), dim=1) + scores.cummax(dim=1).values,
            "median": scores.median(dim=1).values + scores.kthvalue(2, dim=1)[0] + low,
            "change": torch.diff(scores, dim=1).flip(dims=(1,)),
        }


class MaskedPooling(nn.Module):
    """DeepSets: the mean and the maximum of what a mask lets through, torch.where."""

    def __init__(self, n_in: int = 3, hidden: int = 5, n_out: int = 2) -> None:
        super().__init__()
        self.phi = nn.Sequential(nn.Linear(n_in, hidden), nn.ReLU(), nn.Linear(hidden, hidden))
        self.rho = nn.Linear(2 * hidden, n_out)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        h = self.phi(x)
        m = mask.unsqueeze(-1)
        mean = (h * m).sum(dim=1) / m.sum(dim=1).clamp(min=1)
        maximum = torch.where(m, h, torch.tensor(float("-inf"))).max(dim=1)[0]
        out = self.rho(torch.cat([mean, maximum], dim=-1))
        return torch.where(out > 0, out, 0.1 * torch.expm1(out))


class PointNet(nn.Module):
    """The maximum over points, with a small network that turns them first."""

    def __init__(self, k: int = 3) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(3, 6, 1)
        self.bn1 = nn.BatchNorm1d(6)
        self.tnet = nn.Linear(6, 9)
        self.conv2 = nn.Conv1d(3, 7, 1)
        self.fc = nn.Linear(7, k)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        batchsize = x.size()[0]
        h = F.relu(self.bn1(self.conv1(x)))
        h = torch.max(h, 2, keepdim=True)[0].view(-1, 6)
        iden = torch.eye(3).view(1, 9).repeat(batchsize, 1)
        trans = (self.tnet(h) + iden).view(-1, 3, 3)
        x = torch.bmm(x.transpose(2, 1), trans).transpose(2, 1)
        critical = torch.max(self.conv2(x), dim=2)
        return F.log_softmax(self.fc(critical.values), dim=-1), critical.indices


EXAMPLES = (
    Example(
        "graph_convolution",
        GraphConvolution,
        lambda: given(floats(2, 5, 4), edge_index=integers(5, 2, 9)),
        "messages along edges: gather, index_add, scatter_add_",
    ),
    Example("segments", EdgePooling, lambda: given(floats(2, 7, 3), integers(4, 2, 7)), "scatter_add, scatter_reduce"),
    Example("advanced_indexing", Pick, lambda: given(floats(3, 4, 5), torch.tensor([2, 0, 3])), "x[arange, idx] …"),
    Example(
        "write_by_index", WriteByIndex, lambda: given(floats(3, 4), torch.tensor([1, 3, 0])), "index_put_, scatter"
    ),
    Example("orders", Orders, lambda: given(floats(3, 5, 6)), "topk, sort, argsort, one_hot, cumsum, median"),
    Example("deep_sets", MaskedPooling, lambda: given(floats(3, 6, 3), booleans(3, 6)), "masked mean, torch.where"),
    Example("point_net", PointNet, lambda: given(floats(3, 3, 8)), "max over points, its indices, torch.eye"),
)
