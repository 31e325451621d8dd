"""Copies of modules: of what an earlier run computed, and of all that they reach past ``named_modules``."""

from __future__ import annotations

import gc
import math
import threading
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import port
from port.errors import UsageError
from port.parity.sides.copies import PART_OF_ANOTHER, copied
from port.parity.sides.cotangents import RandomCotangents
from port.parity.sides.inputs import inputs_from
from port.parity.sides.reachable import reached, registered
from port.parity.sides.torch_side import TorchSide

from ..hiding import HIDING, Language

pytestmark = pytest.mark.filterwarnings("ignore:`flax.nnx.State` will be deprecated:DeprecationWarning")


class KeepsItsWeights(nn.Module):
    """Attention that shows, after a run, what it looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Linear(4, 5)
        self.weights: Tensor | None = None
        self.history: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.weights = torch.softmax(self.score(x), dim=-1)
        return self.weights @ torch.arange(10, dtype=x.dtype).view(5, 2)


@pytest.mark.sweep
def test_a_module_that_has_run() -> None:
    module = KeepsItsWeights()
    module(torch.randn(3, 4))
    module.history.append(module.weights)
    before = module.weights
    copy = copied(module)
    assert copy.score.weight is not module.score.weight and copy.score.weight.requires_grad
    assert not copy.weights.requires_grad and torch.equal(copy.weights, before)
    assert copy.history[0] is copy.weights  # one tensor still
    made = port.translate(module, torch.randn(3, 4))
    assert made.proof is not None and made.proof.agrees
    assert module.weights is before and before.requires_grad


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated:FutureWarning")
def test_a_computed_weight() -> None:
    module = nn.utils.weight_norm(nn.Linear(3, 2))
    copy = copied(module)
    x = torch.randn(4, 3)
    torch.testing.assert_close(copy(x), module(x), rtol=0, atol=0)
    copy(x).sum().backward()
    assert copy.weight_g.grad is not None and module.weight_g.grad is None


@pytest.mark.parametrize("cls", HIDING)
def test_a_copy_computes_with_nothing_of_the_originals(cls: type[nn.Module]) -> None:
    torch.manual_seed(0)
    module, x = cls(), torch.randn(5, 6)
    copy = copied(module)
    computing = (Tensor, nn.Module)
    originals = {id(thing) for _, thing in reached(module) if isinstance(thing, computing)}
    assert [path for path, thing in reached(copy) if isinstance(thing, computing) and id(thing) in originals] == []
    # Whatever the copy reaches is registered in it, as it is in the original: what eval() and state_dict() see.
    known = registered(copy)
    assert [path for path, thing in reached(copy) if isinstance(thing, computing) and id(thing) not in known] == []
    torch.testing.assert_close(copy.eval()(x), module.eval()(x), rtol=0, atol=0)
    with torch.no_grad():
        for parameter in copy.parameters():
            parameter.add_(1)
    assert not torch.allclose(copy(x), module(x))
    assert all(parameter.grad is None for parameter in module.parameters())


@pytest.mark.parametrize("cls", HIDING)
def test_a_copy_in_float64_is_so_throughout(cls: type[nn.Module]) -> None:
    wide = copied(cls(), Tensor.double).eval()
    assert wide(torch.randn(5, 6, dtype=torch.float64)).dtype == torch.float64


def test_what_hides_from_torch_is_cast_as_well() -> None:
    module = nn.Linear(3, 2)
    module.table = [torch.randn(2)]  # type: ignore[assignment]
    module.register_forward_hook(lambda module, args, result, bias=torch.randn(2): result * module.table[0] + bias)  # noqa: B008
    wide = copied(module, Tensor.double)
    assert wide.table[0].dtype == torch.float64 and module.table[0].dtype == torch.float32
    assert wide(torch.randn(4, 3, dtype=torch.float64)).dtype == torch.float64


class Awkward:
    """Not to be copied, by what it says of itself."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def __deepcopy__(self, memo: Any) -> Any:
        raise RuntimeError("not me")

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise RuntimeError("not me")


class Shy(nn.Module):
    """Cannot be pickled; holds what cannot, either."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 2)
        self.math, self.lock, self.numbers = math, threading.Lock(), (n for n in range(3))
        self.awkward = Awkward(self.fc)
        self.generator = torch.Generator().manual_seed(3)

    def __getstate__(self) -> Any:
        raise RuntimeError("not me")

    def forward(self, x: Tensor) -> Tensor:
        return self.awkward.held(x) * self.math.pi + torch.rand(2, generator=self.generator)


def test_what_cannot_be_pickled() -> None:
    module = Shy()
    copy = copied(module)
    assert copy.math is math and copy.lock is module.lock and copy.numbers is module.numbers
    assert copy.awkward.held is copy.fc is not module.fc
    x = torch.randn(4, 3)
    torch.testing.assert_close(copy(x), module(x), rtol=0, atol=0)  # its generator is in the same state


class Handle:
    """As an extension's object is: without attributes that Python sees."""

    __slots__ = ("__weakref__", "held")

    def __init__(self, held: Any) -> None:
        self.held = held

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("no pickle")

    def __deepcopy__(self, memo: Any) -> Any:
        return self


def test_what_is_shared_may_hold_nothing_that_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    module = nn.Linear(3, 2)
    module.handle = Handle(nn.Linear(2, 2))  # type: ignore[assignment]
    assert copied(module).handle.held is not module.handle.held  # by its slots
    monkeypatch.setattr("port.parity.sides.copies._CLASS_STATEMENT", 0)  # as if it were an extension's
    module.net = None  # type: ignore[assignment]
    with pytest.raises(UsageError, match=r"Linear.handle is an object of Handle that holds a Linear and cannot be cop"):
        copied(module)


def test_a_tensor_in_a_parameters_memory_is_marked() -> None:
    module = nn.Linear(3, 2)
    module.turned = module.weight.data.t()  # type: ignore[assignment]
    module.own = torch.randn(3)  # type: ignore[assignment]
    copy = copied(copied(module))
    assert hasattr(copy.turned, PART_OF_ANOTHER)
    assert not hasattr(copy.own, PART_OF_ANOTHER) and not hasattr(copy.weight, PART_OF_ANOTHER)


def test_gradients_are_left() -> None:
    module = nn.Linear(3, 2)
    module(torch.randn(4, 3)).sum().backward()
    assert copied(module).weight.grad is None and module.weight.grad is not None


def test_functions_that_nothing_can_change_are_the_same() -> None:
    module = nn.Sequential(nn.Linear(3, 3))
    module.act, module.twice = torch.nn.functional.relu, lambda x: 2 * x  # type: ignore[assignment]
    copy = copied(module)
    assert copy.act is module.act and copy.twice is module.twice


def test_two_functions_that_share_a_cell() -> None:
    def pair() -> tuple[Any, Any]:
        count = [0]

        def add() -> None:
            count.append(1)

        return add, lambda: len(count)

    module = nn.Linear(3, 2)
    module.add, module.count = pair()  # type: ignore[assignment]
    copy = copied(module)
    copy.add()
    assert (copy.count(), module.count()) == (2, 1)


def test_the_comparison_runs_such_copies() -> None:
    torch.manual_seed(0)
    module = Language()
    side = TorchSide(module, "float64")
    given = inputs_from(torch.randn(5, 6), "float64")
    gradients = side.run(given, RandomCotangents(), training=True).gradients
    assert all(gradients[name].any() for name, _ in module.named_parameters())
    assert all(parameter.grad is None for parameter in module.parameters())


@pytest.mark.parametrize("layer", [nn.Linear(3, 2), nn.LSTM(3, 2), nn.TransformerEncoderLayer(4, 2), nn.LayerNorm(3)])
def test_a_copy_is_freed_with_its_last_name(layer: nn.Module) -> None:
    """Large models are copied many times: a copy that waits for the collection of garbage is memory for nothing."""
    gc.disable()
    try:
        copy = weakref.ref(copied(nn.Sequential(layer)))
        assert copy() is None
    finally:
        gc.enable()
