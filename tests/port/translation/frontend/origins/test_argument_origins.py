"""The origins of numeric arguments of operators, layers and module calls in a capture."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.fx.proxy import TracerBase

from port.translation.frontend.origins.argument_origins import ArgumentOrigins, numbers_in
from port.translation.frontend.origins.resolved import Resolved
from port.translation.ir.number import KnownNumber
from port.translation.ir.origin import AttributeOf, LiteralAt

from .origins_seen import graph_of, numbers_seen, said_of

X = torch.zeros(5, 7, 21)


class Attention(nn.Module):
    """Two attributes with the same value, and one call of each kind."""

    def __init__(self) -> None:
        super().__init__()
        self.heads, self.also_heads, self.dim, self.rate = 3, 3, 21, 0.25
        self.qkv = nn.Linear(21, 63)

    def split(self, x: Tensor, heads: int) -> Tensor:
        return x.view(*x.shape[:-1], heads, self.dim // heads).transpose(1, 2)

    def forward(self, x: Tensor, scale: float = 2.0, causal: bool = True) -> Tensor:
        q, k, v = self.qkv(x).split(self.dim, dim=2)
        q, k, v = self.split(q, self.also_heads), self.split(k, heads=self.heads), self.split(v, 3)
        scores = q @ k.transpose(-2, -1) * (scale / math.sqrt(q.size(-1)))
        weights = F.dropout(F.softmax(scores, dim=-1), p=self.rate, training=self.training)
        return 1 - (weights @ v).flatten(2)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention, self.scale = Attention(), 1.5
        self.attention_scale = 1.5

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, self.scale) + self.attention(x, causal=False).mean()


def test_each_of_two_calls_has_its_own_numbers() -> None:
    graph = graph_of(Net(), X)
    calls = numbers_seen(graph, "attention")
    assert [{path[0] for path in call} for call in calls] == [{"scale", "causal"}] * 2
    assert said_of(graph, "attention", "scale") == ["self.scale", "default"]
    assert said_of(graph, "attention", "causal") == ["default", "<False>"]
    scores = [text for text in said_of(graph, "mul", "other", "attention") if text is not None]
    assert scores == ["the model.scale / math.sqrt(q.shape[-1])", "default / math.sqrt(q.shape[-1])"]


def test_of_two_attributes_of_one_value_it_is_the_one_that_is_written() -> None:
    graph = graph_of(Attention(), X)
    own, other, literal, _ = said_of(graph, "view", "size")
    assert own == ["x.shape[0]", "x.shape[1]", "self.also_heads", "self.dim // self.also_heads"]
    assert other[2:] == ["self.heads", "self.dim // self.heads"]
    assert literal[2:] == ["<3>", "self.dim // <3>"]


def test_arguments_of_operators() -> None:
    graph = graph_of(Attention(), X, training=True)
    assert said_of(graph, "split", "split_size") == ["self.dim"] and said_of(graph, "split", "dim") == ["<2>"]
    assert said_of(graph, "softmax", "dim") == ["<-1>"]
    assert said_of(graph, "native_dropout", "p") == ["self.rate"]
    assert said_of(graph, "native_dropout", "train") == ["self.training"]
    assert said_of(graph, "rsub", "other") == ["<1>"] and said_of(graph, "rsub", "alpha") == ["default"]


class Traps(nn.Module):
    """Numbers whose origin the source does not show plainly."""

    def __init__(self) -> None:
        super().__init__()
        self.heads, self.dim, self.sizes = 3, 21, [5, 7, 3, 7]

    def forward(self, x: Tensor) -> Tensor:
        for n in (3, 7, 7):
            x = x * n
        k = self.heads
        for _ in range(2):
            x = x / k
            k = 7
        x = x + sum([m + 1 for m in (11, 13)])
        sizes = [self.heads, 7]
        sizes[0], batch = 5, x.shape[0]
        x = x.view(batch, 7, *sizes[1:], 3)
        return x.reshape(*self.sizes).roll((self.heads, 2), (self.index(), 0))

    def index(self) -> int:
        return 3 if self.dim > 3 else 2


def test_what_the_source_does_not_say_plainly_is_not_known() -> None:
    graph = graph_of(Traps(), X)
    assert said_of(graph, "mul", "other") == ["<3>", None, None]  # which of the two it is cannot be seen
    assert said_of(graph, "div", "other") == [None, None]
    assert said_of(graph, "add", "other") == [None]
    assert said_of(graph, "view", "size")[0][:3] == ["x.shape[0]", "<7>", None]
    shifts, dims = said_of(graph, "roll", "shifts")[0], said_of(graph, "roll", "dims")[0]
    assert shifts[0] == "self.heads" and dims == [None, "<0>"]


def test_what_composite_operators_become_has_the_numbers_that_are_still_theirs() -> None:
    graph = graph_of(Traps(), X)
    (reshaped,) = [each for each in said_of(graph, "view", "size") if "self.sizes[0]" in each]
    assert reshaped == [f"self.sizes[{place}]" for place in range(4)]

    class Chunks(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            one, other, third = x.chunk(3, dim=-1)
            return one + other * third

    graph = graph_of(Chunks(), X)
    assert said_of(graph, "split", "split_size") == [None] and said_of(graph, "split", "dim") == ["<-1>"]


class Subscripts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.other, self.size = 2, 2, (3, 5)

    def forward(self, x: Tensor) -> Tensor:
        y = x[self.other :, ..., self.first]
        return F.avg_pool2d(x[:, None], self.size, stride=self.first).flatten(1).sum() + y


def test_subscripts_and_sizes_for_each_axis() -> None:
    graph = graph_of(Subscripts(), X)
    assert said_of(graph, "select", "index") == ["self.first"]
    assert said_of(graph, "slice", "start")[0] == "self.other" and said_of(graph, "slice", "end")[0] == "default"
    assert said_of(graph, "avg_pool2d", "kernel_size") == [["self.size[0]", "self.size[1]"]]
    assert said_of(graph, "avg_pool2d", "stride") == [["self.first", "self.first"]]


class Asking(nn.Module):
    """A layer kept whole that takes a flag."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.average = nn.MultiheadAttention(21, 3, batch_first=True), False

    def forward(self, x: Tensor) -> Tensor:
        given: Tensor = self.attention(x, x, x, need_weights=True, average_attn_weights=self.average)[0]
        return given


def test_a_layer_that_is_kept_whole() -> None:
    graph = graph_of(Asking(), X)
    assert said_of(graph, "attention", "average_attn_weights") == ["self.average"]
    assert said_of(graph, "attention", "need_weights") == ["<True>"]


class Above(nn.Module):
    def forward(self, x: Tensor, n: int) -> Tensor:
        return x * n


class Below(Above):
    def __init__(self) -> None:
        super().__init__()
        self.n = 3

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x, self.n)


def test_a_method_of_the_class_above() -> None:
    assert said_of(graph_of(Below(), X), "mul", "other") == ["self.n"]


def test_nothing_stays_behind_and_a_capture_that_finds_nothing_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    before = TracerBase.create_node
    net = Net()
    variables = dict(vars(net)), dict(vars(net.attention))
    graph_of(net, X)
    assert TracerBase.create_node is before and variables == (dict(vars(net)), dict(vars(net.attention)))

    def failing(*args: Any) -> Any:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr("port.translation.frontend.origins.number_origins.NumberOrigins.resolve", failing)
    monkeypatch.setattr("port.translation.frontend.origins.frame_parameters.FrameParameters.of", failing)
    graph = graph_of(net, X)
    assert {origin for call in numbers_seen(graph, "attention") for origin in call.values()} == {None}


def test_numbers_are_those_that_were_given() -> None:
    stride = AttributeOf("", "stride")
    assert dict(numbers_in(3, Resolved(3, stride), ("n",))) == {("n",): KnownNumber(3, stride)}
    assert dict(numbers_in(5, Resolved(3, stride), ("n",))) == dict(numbers_in(True, Resolved(1, stride), ("n",))) == {}
    assert dict(numbers_in([3, 3], Resolved(3, stride), ("n",))) == {
        ("n", 0): KnownNumber(3, stride),
        ("n", 1): KnownNumber(3, stride),
    }
    assert dict(numbers_in([3, 5], Resolved(3, stride), ("n",))) == {("n", 0): KnownNumber(3, stride)}
    assert dict(numbers_in([3, 5, 7], Resolved((3, 5), stride), ("n",))) == {}


def test_a_capture_without_notes_has_no_origins() -> None:
    graph = torch.fx.symbolic_trace(Below())
    (node,) = [node for node in graph.graph.nodes if node.op == "call_function"]
    assert ArgumentOrigins(nn.Identity()).of_node(node, {"other": 3}) == {}
    assert isinstance(numbers_seen(graph_of(Traps(), X), "roll")[0][("shifts", 1)], LiteralAt)
