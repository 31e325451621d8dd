"""The first check of a module: it runs, a copy computes the same, and the module is left unchanged."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from port.errors import UsageError
from port.translation.frontend import check_forward as checking
from port.translation.frontend.check_forward import check_forward
from port.translation.frontend.uninitialized import filled_at_random

SHARED = nn.Linear(4, 4)


class Changing(nn.Module):
    """Changes everything that a forward can change: attributes, lists, buffers, weights, generators."""

    def __init__(self, fails: bool = False) -> None:
        super().__init__()
        self.fc, self.fails = nn.Linear(4, 4), fails
        self.register_buffer("seen", torch.zeros(4))
        self.count, self.log, self.table = 0, [torch.ones(2)], {"last": None, "first": 1}
        self.tags = {"new"}
        self.generator = torch.Generator().manual_seed(1)
        self.last: Any = None

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        self.last = x
        self.log.append(x)
        self.table["last"] = x  # type: ignore[assignment]
        self.table["more"] = 2
        self.tags.clear()
        self.seen += 1
        self.fc.weight.data.mul_(1.5)
        self.log[0].add_(1)
        x.add_(torch.rand(4, generator=self.generator) + 0 * random.random())
        if self.fails:
            raise RuntimeError("on its way")
        return self.fc(x) * self.seen


@pytest.mark.parametrize("fails", [False, True])
def test_the_module_stays_as_it_was(fails: bool) -> None:
    module, x = Changing(fails), torch.randn(3, 4)
    module(x.clone()).sum().backward() if not fails else None
    weight, seen, log, given = module.fc.weight.clone(), module.seen.clone(), module.log[0].clone(), x.clone()
    gradient, attributes, numbers = module.fc.weight.grad, dict(vars(module)), random.getstate()
    state, items, table, drawn = (
        module.generator.get_state(),
        list(module.log),
        dict(module.table),
        torch.get_rng_state(),
    )
    tags = set(module.tags)
    if fails:
        with pytest.raises(UsageError, match=r"Changing does not take the example inputs .*on its way"):
            check_forward(module, (x,), {})
    else:
        check_forward(module, (x,), {})
    assert vars(module) == attributes and module.training and module.fc.training
    assert module.fc.weight.grad is gradient and random.getstate() == numbers
    assert [id(item) for item in module.log] == [id(item) for item in items] and module.tags == tags
    assert list(module.table) == list(table) and module.table["last"] is table["last"]
    for now, before in ((module.fc.weight, weight), (module.seen, seen), (module.log[0], log), (x, given)):
        assert torch.equal(now, before)
    assert torch.equal(module.generator.get_state(), state) and torch.equal(torch.get_rng_state(), drawn)


class Sets(nn.Module):
    """Hides one of torch's methods behind an attribute."""

    def __init__(self, name: str, value: Any) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        setattr(self, name, value)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x)


class Listed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.modules = [self.fc]  # type: ignore[assignment]

    def forward(self, x: Tensor) -> Tensor:
        return self.modules[0](x)  # type: ignore[index]


@pytest.mark.parametrize(("name", "value"), [("parameters", 3), ("children", []), ("train", None), ("buffers", {})])
def test_an_attribute_that_hides_a_method(name: str, value: Any) -> None:
    inner = nn.Sequential(Sets(name, value))
    with pytest.raises(UsageError, match=rf"^Sets \(0\) sets self.{name}, which hides torch.nn.Module.{name}: rename"):
        check_forward(inner, (torch.randn(2, 4),), {})


def test_where_it_is_set() -> None:
    with pytest.raises(UsageError, match=r"^Listed sets self.modules at .*test_check_forward.py:\d+, which hides"):
        check_forward(Listed(), (torch.randn(2, 4),), {})


@pytest.mark.parametrize("name", ["cpu", "double", "type", "half"])
def test_an_attribute_that_hides_a_method_that_nobody_calls(name: str) -> None:
    check_forward(Sets(name, True), (torch.randn(2, 4),), {})


def test_a_function_in_a_methods_place_is_fine() -> None:
    module = Sets("train", lambda mode=True: module)
    check_forward(module.eval(), (torch.randn(2, 4),), {})


class ById(nn.Module):
    """Identifies its layers by their ids."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.scales = {id(self.fc): 2.0}

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x) * self.scales[id(self.fc)]


class ByIdOrNot(ById):
    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x) * self.scales.get(id(self.fc), 1.0)


class Drawing(nn.Module):
    """Draws from a generator that torch's seed does not control."""

    def forward(self, x: Tensor) -> Tensor:
        return x * float(np.random.rand())  # noqa: NPY002


class Elsewhere(nn.Module):
    """Reads its own layer through a global."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = SHARED

    def forward(self, x: Tensor) -> Tensor:
        return SHARED(x)


@pytest.mark.parametrize(
    ("module", "why"),
    [
        (ById(), r"a copy fails: it may identify its parts by id\(\) or the like .*KeyError"),
        (ByIdOrNot(), r"a copy computes something else \(output 0\)"),
        (Drawing(), r"a copy computes something else \(output 0\)"),
        (Elsewhere(), r"a copy reads the original's fc.weight: a global or a class holds it; read it through self"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_a_copy_that_is_another_model(module: nn.Module, why: str) -> None:
    with pytest.raises(
        UsageError, match=rf"^{type(module).__name__} runs, but translation and proof run copies of it, and {why}"
    ):
        check_forward(module, (torch.randn(2, 4),), {})


class Unfilled(nn.Module):
    """Returns uninitialised memory; or fills it, or does not use it in its results."""

    def __init__(self, fill: str) -> None:
        super().__init__()
        self.fill = fill
        self.held = [torch.ones(5)]  # a copy of it is made in new memory as well

    def forward(self, x: Tensor) -> Tensor:
        made = torch.empty(3, 4) if self.fill != "like" else torch.empty_like(x)
        if self.fill == "strided":
            made = torch.empty_strided((3, 4), (1, 0))
        if self.fill == "copied":
            made.copy_(x[:3])
        if self.fill == "half":
            made[:, :2] = 1
        return made if self.fill != "unused" else x


@pytest.mark.parametrize("fill", ["nothing", "like", "half", "strided"])
def test_memory_that_nothing_fills(fill: str) -> None:
    with pytest.raises(
        UsageError, match=r"^Unfilled returns uninitialised memory \(output 0\): .*test_check_forward.py:\d+"
    ):
        check_forward(Unfilled(fill), (torch.randn(3, 4),), {})


@pytest.mark.parametrize("fill", ["copied", "unused"])
def test_memory_that_is_filled_or_not_read(fill: str) -> None:
    check_forward(Unfilled(fill), (torch.randn(3, 4),), {})


class DrawingAndUnfilled(Drawing):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(torch.empty_like(x).copy_(x))


def test_memory_is_not_blamed_for_what_is_drawn() -> None:
    with pytest.raises(UsageError, match="draws random numbers that torch"):
        check_forward(DrawingAndUnfilled(), (torch.randn(3, 4),), {})


class Noisy(nn.Module):
    """Draws in evaluation too, from torch's generator; one result is not a tensor."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, str]:
        return x + torch.randn_like(x), torch.full((2,), torch.nan), "text"


def test_draws_and_what_is_no_number() -> None:
    check_forward(Noisy(), (torch.randn(2, 4),), {})


def test_a_lazy_layer_is_not_run_itself() -> None:
    module = nn.LazyLinear(3)
    check_forward(module, (torch.randn(2, 4),), {})
    assert isinstance(module, nn.LazyLinear) and module.has_uninitialized_params()


def test_each_look_fills_memory_with_numbers_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    # The memory that the original gets may hold what an earlier copy left: with the same numbers they would be equal.
    seeds: list[int] = []

    def noted(seed: int) -> Any:
        seeds.append(seed)
        return filled_at_random(seed)

    monkeypatch.setattr(checking, "filled_at_random", noted)
    for _ in range(2):
        check_forward(Unfilled("copied"), (torch.randn(3, 4),), {})
    assert len(seeds) == len({*seeds}) == 2
