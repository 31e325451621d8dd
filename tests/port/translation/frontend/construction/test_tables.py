"""The formulas of tables are recorded, with the origins of their numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from port.translation.frontend.construction.tables import TableFormula, TableFormulas
from port.translation.ir.origin import ConstructorArgument, said
from port.translation.ir.origin_numbers import origin_of, with_origin


def text(part: Any) -> str:
    """A table's formula as text, with the names of the arguments in it."""
    if isinstance(part, TableFormula):
        return f"{part.operator}({', '.join(map(text, part.operands))})"
    origin = origin_of(part)
    return repr(part) if origin is None else said(origin)


def formula(make: Callable[[Any, Any], Tensor]) -> str | None:
    with TableFormulas() as seen:
        made = make(with_origin(6, ConstructorArgument(0, "dim")), with_origin(100.0, ConstructorArgument(0, "base")))
    found = seen.of(made)
    return None if found is None else text(found)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (
            lambda n, base: 1.0 / base ** (torch.arange(0, n, 2, dtype=torch.int64).float() / n),
            "div(1.0, pow(base, div(arange(0, dim, 2), dim)))",
        ),
        (lambda n, base: torch.exp(torch.arange(n) * -0.5).clone(), "exp(mul(arange(dim), -0.5))"),
        (lambda n, base: nn.Buffer(torch.arange(start=1, end=n) - 1), "sub(arange(1, dim), 1)"),
        (lambda n, base: torch.empty(6).copy_(torch.arange(n)), "arange(dim)"),
        (lambda n, base: (1 - torch.arange(n).to(torch.float64)) // 2, "floor_divide(sub(1, arange(dim)), 2)"),
        (lambda n, base: torch.tensor(base, dtype=torch.float64).float(), "tensor(base)"),
        (lambda n, base: torch.tensor(data=n), "tensor(dim)"),
        (lambda n, base: nn.init.constant_(torch.tensor(1.0), val=base), "tensor(base)"),
        (lambda n, base: torch.tensor(1.0).fill_(base) * n, "mul(tensor(base), dim)"),
    ],
)
def test_formulas_of_counts_and_numbers(make: Callable[[Any, Any], Tensor], expected: str) -> None:
    assert formula(make) == expected


@pytest.mark.parametrize(
    "make",
    [
        lambda n, base: torch.arange(n).float().mul_(2),
        lambda n, base: torch.arange(n) + torch.rand(n),
        lambda n, base: torch.arange(n).copy_(torch.tensor([7])),
        lambda n, base: torch.linspace(0, 1, n),
        lambda n, base: torch.add(torch.arange(n), torch.arange(n), alpha=2),
        lambda n, base: torch.arange(0.0, base, 0.5),
        lambda n, base: torch.tensor([base]),
        lambda n, base: torch.tensor(base).add_(1),
        lambda n, base: torch.tensor(base).fill_(torch.tensor(2.0)),
        lambda n, base: torch.empty(3).fill_(base),
        lambda n, base: torch.tensor(True),
    ],
)
def test_of_others_nothing_is_known(make: Callable[[Any, Any], Tensor]) -> None:
    assert formula(make) is None


def test_what_is_written_into_is_forgotten() -> None:
    def make(n: Any, base: Any) -> Tensor:
        table = torch.arange(n)
        table[0] = 7
        return table

    assert formula(make) is None
