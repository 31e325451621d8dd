"""Named lengths: where the names come from, which axes they refer to, and which names are not used."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import port
from port.translation.ir import syntax
from port.translation.ir.graph import Value
from port.translation.ir.layout import Layout, channels_last, torchs
from port.translation.ir.origin import LengthOf, NamedLength
from port.translation.ir.source_location import SourceLocation
from port.translation.structure.length_statements import length_statements
from port.translation.structure.named_lengths import NamedLengths


def four(x: Tensor) -> Any:
    b, c, h, w = x.shape
    return b, c, h, w


def last_two(x: Tensor) -> Any:
    h, w = x.shape[-2:]
    return h, w


def apart(x: Tensor) -> Any:
    b, c = x.shape[:2]
    return b, c


def one(x: Tensor) -> Any:
    c = x.size(1)
    return x, c


def a_list(x: Tensor) -> Any:
    sizes = x.shape[2:]
    return x, sizes


IMAGE = Value("x", ("n", 3, "h", "w"), "float32")


def written(function: Any, layout: Layout, taken: tuple[str, ...] = ()) -> str:
    (statement,) = length_statements(function)
    names = NamedLengths(function)
    made = names.take(statement, syntax.Name("x"), IMAGE, layout, "x", lambda name: name not in taken)
    return "" if made is None else syntax.source(made)


@pytest.mark.parametrize(
    ("function", "in_torchs", "with_channels_last"),
    [
        (four, "b, c, h, w = x.shape", "b, h, w, c = x.shape"),
        (last_two, "h, w = x.shape[-2:]", "h, w = x.shape[1:3]"),
        (apart, "b, c = x.shape[:2]", "b, c = (x.shape[0], x.shape[3])"),
        (one, "c = x.shape[1]", "c = x.shape[3]"),
    ],
)
def test_names_follow_their_axes(function: Any, in_torchs: str, with_channels_last: str) -> None:
    assert written(function, torchs(4)) == in_torchs
    assert written(function, channels_last(4, 1)).replace("(", "").replace(")", "") == with_channels_last.replace(
        "(", ""
    ).replace(")", "")


def test_a_list_keeps_its_order_or_is_none() -> None:
    assert written(a_list, torchs(4)) == "sizes = x.shape[-2:]"
    assert written(a_list, channels_last(4, 1)) == "sizes = x.shape[1:3]"
    assert written(a_list, Layout((0, 3, 2, 1))) == ""


def test_a_name_that_is_taken_is_not_given() -> None:
    assert written(four, torchs(4), ("h",)) == "b, c, _, w = x.shape"
    assert written(one, torchs(4), ("c",)) == ""


def test_what_a_name_is_of() -> None:
    names = NamedLengths(four)
    (statement,) = names.due(None)
    names.take(statement, syntax.Name("x"), IMAGE, channels_last(4, 1), "x", lambda _: True)
    there, elsewhere = statement.place, SourceLocation(statement.place.file, statement.place.line + 1)
    assert names.of_origin(LengthOf("x", 1, there)) == NamedLength("c", 3)
    assert names.of_origin(LengthOf("x", -3, there)) == NamedLength("c", 3)
    assert names.of_origin(LengthOf("x", 0, there)) is None  # it is free: its formula says it
    assert names.of_origin(LengthOf("y", 1, there)) is None
    assert names.of_origin(LengthOf("x", 1, elsewhere)) is None
    assert syntax.source(names.of_product("h*w") or syntax.Const(None)) == "h * w"
    assert names.of_product("t") is None
    names.forget("h")
    assert names.of_product("h*w") is None


class Heads(nn.Module):
    """Names that are used, and one that stands for something else later on."""

    def __init__(self, dim: int = 12, heads: int = 3) -> None:
        super().__init__()
        self.heads = heads
        self.fc = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.fc(x))
        n, t, d = x.shape
        y = x.view(n, t, self.heads, d // self.heads).transpose(1, 2)
        n = y.mean(dim=(1, 2))
        z = y.transpose(1, 2).reshape(len(x), t, d)
        return z + torch.arange(t)[:, None] + n.mean()


class Images(nn.Module):
    """Channels last moves the axes, and the names with them."""

    def __init__(self, channels: int = 6, groups: int = 3) -> None:
        super().__init__()
        self.groups = groups
        self.conv = nn.Conv2d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        batch, channels, height, width = x.size()
        x = x.view(batch, self.groups, channels // self.groups, height, width)
        x = x.transpose(1, 2).reshape(batch, -1, height, width)
        return self.conv(x)


class WithLists(nn.Module):
    """A list of lengths, of which another list is made, as in the attention of transformers."""

    def __init__(self, dim: int = 12, head_dim: int = 4) -> None:
        super().__init__()
        self.head_dim = head_dim
        self.fc = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        input_shape = x.shape[:-1]
        hidden_shape = (*input_shape, -1, self.head_dim)
        y = self.fc(x).view(hidden_shape).transpose(1, 2).softmax(-1)
        return y.transpose(1, 2).reshape(*input_shape, -1)


class Turned(nn.Module):
    """The array that is called y is no transpose of what was made before; its lengths' names are those of one."""

    def __init__(self, dim: int = 12) -> None:
        super().__init__()
        self.fc = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        y = self.fc(x).transpose(1, 2)
        n, d, t = y.shape
        z = y.reshape(n, 3, d // 3, t).mean(2)
        return z + torch.arange(t)


class Inside(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x * 2).transpose(1, 2)


class TurnedInside(nn.Module):
    """What a module gives is a transpose, made where no statement of this one is."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = Inside()

    def forward(self, x: Tensor) -> Tensor:
        y = self.inside(x)
        n, d, t = y.shape
        return y.reshape(n, 3, d // 3, t).mean(2) + torch.arange(t)


class Misleading(nn.Module):
    """The name ``x`` stands for something else where the shape is read than it does in the written code."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 6)

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim == 3:
            x = x.mean(0)
        n, d = x.shape
        return self.fc(x).view(n, 2, 3) + d


def translated(module: nn.Module, x: Tensor) -> str:
    made = port.translate(module, x, construct=type(module))
    assert made.proof is not None and made.proof.agrees
    return made.source


@pytest.mark.sweep
def test_a_body_with_names() -> None:
    source = translated(Heads(), torch.randn(2, 5, 12))
    assert "n, t, d = x.shape" in source
    assert "x.reshape(n, t, self.heads, d // self.heads)" in source
    assert "y.reshape(y.shape[0], t, d)" in source  # n is another by then
    assert "jnp.arange(t)" in source


@pytest.mark.sweep
def test_a_body_with_a_list() -> None:
    source = translated(WithLists(), torch.randn(2, 5, 12))
    assert "input_shape = x.shape[:2]" in source
    assert "self.fc(x).reshape(*input_shape, -1, self.head_dim)" in source
    assert ".reshape(*input_shape, -1)" in source


@pytest.mark.sweep
@pytest.mark.parametrize(("cls", "named"), [(Turned, "n, t, d = y.shape"), (TurnedInside, "n, d, t = y.shape")])
def test_names_are_those_of_the_originals_axes(cls: type[nn.Module], named: str) -> None:
    source = translated(cls(), torch.randn(2, 5, 12))
    assert named in source  # as the array lies: d is what is divided, and t is what is counted
    assert "d // 3" in source and "jnp.arange(t)" in source


@pytest.mark.sweep
def test_of_an_image() -> None:
    source = translated(Images(), torch.randn(2, 6, 4, 5))
    assert "batch, height, width, channels = x.shape" in source
    assert "self.groups, channels // self.groups" in source


@pytest.mark.sweep
def test_a_statement_whose_tensor_is_not_certain_is_not_kept() -> None:
    source = translated(Misleading(), torch.randn(3, 4))
    assert "= x.shape" not in source
    assert "reshape(" in source
