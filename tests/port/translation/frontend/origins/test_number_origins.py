"""An expression in a frame is resolved to its value and origin; an unknown one stays unknown."""

from __future__ import annotations

import ast
import math
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from port.translation.frontend.origins.executing import ProgramPoint
from port.translation.frontend.origins.number_origins import NumberOrigins
from port.translation.frontend.origins.resolved import Resolved
from port.translation.ir.number import is_same
from port.translation.ir.origin import said

HEADS = 3
AGAIN = 5
AGAIN = 7
LATER: Any = 0


def _set_later() -> None:
    global LATER
    LATER = 11


class Net(nn.Module):
    """Its methods report the origin of what they are about to use."""

    def __init__(self) -> None:
        super().__init__()
        self.heads, self.dim, self.also = 3, 21, 3
        self.config = SimpleNamespace(n_head=3, sizes=[5, 7], table={"dim": 21})
        self.inner = nn.ModuleList([nn.Linear(5, 3)])
        self.seen: list[Any] = []

    def tell(self, value: Any) -> None:
        """The resolved argument, seen from its caller: its origin in words, or a list of them."""
        origins = NumberOrigins(self)
        point = origins.files.point(sys._getframe(1))
        assert point is not None and isinstance(point.node, ast.Call)
        found = origins.resolve(point.node.args[0], point).observed_as(value)
        items = [found] if not isinstance(value, tuple | list) else (found.each_item() or ())
        texts = []
        for item, given in zip(items, value if isinstance(value, tuple | list) else [value], strict=False):
            assert item.origin is None or is_same(item.value, given)
            texts.append(None if item.origin is None else said(item.origin))
        self.seen.append(texts if isinstance(value, tuple | list) else texts[0])


def _told(method: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
    net = Net()
    method(net, *args, **kwargs)
    return net.seen


X = torch.zeros(5, 7, 21)


def test_attributes() -> None:
    def run(self: Net) -> None:
        config = self.config
        self.tell(self.heads)
        self.tell(config.n_head)
        self.tell(self.config.table["dim"])
        self.tell(self.config.sizes[1])
        self.tell(self.inner[0].in_features)
        for layer in self.inner:
            self.tell(layer.in_features)

    inner = "self.inner.0.in_features"
    assert _told(run) == [
        "self.heads",
        "self.config.n_head",
        "self.config.table['dim']",
        "self.config.sizes[1]",
        inner,
        inner,
    ]


def test_of_two_attributes_of_one_value_it_is_the_one_that_is_written() -> None:
    def run(self: Net) -> None:
        n = self.also
        self.tell(n)
        self.tell(self.heads)

    assert _told(run) == ["self.also", "self.heads"]


def test_lengths_also_of_a_tensor_whose_name_is_another_tensors_by_now() -> None:
    def run(self: Net, x: torch.Tensor) -> None:
        batch, length, dim = x.shape
        *_, last = x.size()
        x = x[:, :, :3]
        self.tell((batch, length, dim, last))
        self.tell(x.size(-1))
        self.tell(x.shape[2] * x.size()[0])
        self.tell((*x.shape[:-1], self.heads))
        self.tell(dim // self.heads)

    assert _told(run, X) == [
        ["x.shape[0]", "x.shape[1]", "x.shape[2]", "x.shape[-1]"],
        "x.shape[-1]",
        "x.shape[2] * x.shape[0]",
        ["x.shape[0]", "x.shape[1]", "self.heads"],
        "x.shape[2] // self.heads",
    ]


def test_arithmetic() -> None:
    def run(self: Net) -> None:
        n = self.dim
        n //= self.heads
        self.tell(n)
        self.tell(1 / math.sqrt(self.dim))
        self.tell(-self.dim if self.heads > 2 else self.heads)
        self.tell(None or self.heads)

    line = run_line(run, 4)
    assert _told(run) == ["self.dim // self.heads", f"{line}:18 / math.sqrt(self.dim)", "-self.dim", "self.heads"]


def run_line(function: Any, place: int) -> int:
    return int(function.__code__.co_firstlineno) + place


def test_constants_of_the_file() -> None:
    def run(self: Net) -> None:
        self.tell(HEADS)
        self.tell(AGAIN)
        self.tell(LATER)

    _set_later()
    (first, *others) = _told(run)
    assert first is not None and first.endswith(":8") and others == [None, None]


def test_what_is_given_in_a_loop_a_branch_or_a_comprehension() -> None:
    def run(self: Net, deep: bool, x: torch.Tensor) -> None:
        n = self.heads
        for n in range(3, 4):
            self.tell(n)
        self.tell(n)
        m = self.heads
        while m == 3:
            self.tell(m)
            m = self.dim
        k = self.heads
        if deep:
            k = self.dim
        self.tell(k)
        if x is None:
            k = 5
        self.tell(k)
        [self.tell(n) for n in (3,)]
        [self.tell(k) for _ in range(1)]
        [self.tell(self.heads) for _ in range(1)]
        [self.tell(k) for k in (21,)]  # another k, with the same value

    assert _told(run, True, X) == [None, None, None, "self.dim", "self.dim", None, "self.dim", "self.heads", None]
    assert _told(run, False, X)[3] == "self.heads"


def test_a_list_that_is_changed_is_not_what_it_was() -> None:
    def run(self: Net) -> None:
        sizes = [self.heads, self.dim]
        sizes[0] = self.also
        self.tell(sizes)
        sizes.reverse()
        self.tell(sizes)
        others = sizes.copy()
        if sizes is None:
            others[1] = 5
        others[-1] = self.dim
        self.tell(others)

    assert _told(run) == [["self.also", "self.dim"], [None, None], [None, "self.dim"]]


def test_what_a_loop_gives_is_the_item_that_it_is() -> None:
    def run(self: Net) -> None:
        slices = ((0, -self.heads), (-self.heads, None))
        for first, _ in slices:
            self.tell(first)
        for window in slices:
            for other in slices:
                self.tell(window[0])
                self.tell(other[1])
        for number in (self.heads, self.also):
            self.tell(number)  # both are 3: which one it is cannot be seen

    line = run_line(run, 1)
    first, last = f"{line}:19", "-self.heads"
    assert _told(run)[2:10] == [first, last, first, None, last, last, last, None]
    assert _told(run)[10:] == [None, None]


def test_how_many_numbers_a_tensor_has() -> None:
    def run(self: Net, x: torch.Tensor) -> None:
        y = x[0, 0]
        self.tell(y.numel() // 3)
        self.tell(x.numel())

    line = run_line(run, 2)
    assert _told(run, X) == [f"y.shape[0] // {line}:31", "(x.shape[0] * x.shape[1]) * x.shape[2]"]


def test_through_functions_of_the_users() -> None:
    def inner(net: Net, n: int, *rest: int, scale: int = 2, **more: int) -> None:
        net.tell((n, *rest))
        net.tell(scale)
        net.tell(more["m"])

    def run(self: Net) -> None:
        more = {"m": 3}
        inner(self, self.heads, 5, self.dim, m=self.also)
        inner(self, *(3, 5), scale=self.heads, **more)
        (lambda n: self.tell(n))(self.heads)

    line = run_line(run, 2)
    one, other = _told(run)[:3], _told(run)[3:]
    assert one == [["self.heads", f"{line}:32", "self.dim"], "default", "self.also"]
    assert other == [[f"{line + 1}:22", f"{line + 1}:25"], "self.heads", None, None]


def test_a_function_that_is_called_by_another_of_pythons_is_not_followed() -> None:
    def run(self: Net) -> None:
        list(map(self.tell_twice, [3]))
        sorted([3], key=lambda n: self.tell(n) or 0)

    assert _told(run) == [None, None]


Net.tell_twice = lambda self, n: self.tell(n)  # type: ignore[attr-defined]


def test_an_object_without_source_and_values_that_do_not_agree() -> None:
    def run(self: Net) -> None:
        heads = self.heads
        self.heads = 5
        self.tell(heads)
        made: dict[str, Any] = {"net": self}
        exec("value = 3", made)
        self.tell(made["value"])

    assert _told(run) == [None, None]


class Deciding(Net):
    """Whether it is causal decides about the bias, and the bias whether it is causal."""

    def forward(self, causal: bool = False, bias: Any = None) -> None:
        size = width = self.heads
        if causal:
            bias = bias
        if bias is not None:
            causal = False
            size = self.also
        if causal:
            width = self.dim
        self.tell((size, width))


def test_conditions_that_decide_each_other_are_followed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve, lookups = NumberOrigins.resolve, list[ast.expr]()

    def counted(self: NumberOrigins, node: ast.expr, point: ProgramPoint) -> Resolved:
        lookups.append(node)
        return resolve(self, node, point)

    monkeypatch.setattr(NumberOrigins, "resolve", counted)
    net = Deciding()
    net.forward()
    net.forward(causal=True)
    net.forward(bias=X)
    assert net.seen == [["self.heads", "self.heads"], ["self.heads", "self.dim"], ["self.also", "self.heads"]]
    assert len(lookups) < 600
