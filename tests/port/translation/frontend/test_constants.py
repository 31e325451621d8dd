"""Tensors that a run reads and no operator made: numbers become literals, hidden state is refused."""

from __future__ import annotations

import ast
from collections import deque
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import port
from port.errors import NoPair
from port.translation.both_modes import both_runs
from port.translation.frontend.constants import constant, is_written
from port.translation.ir.syntax import source

from ...parity.hiding import HIDING, Parts

TABLE = torch.randn(6, 6)
LAYER = nn.Linear(6, 6)


def test_numbers_that_the_code_made() -> None:
    text = source(constant(torch.tensor([[True, False]])))
    assert text == "jnp.array([[True, False]], jnp.bool_)"
    with pytest.raises(NoPair, match="257 numbers: make it a buffer"):
        constant(torch.zeros(257))


@pytest.mark.parametrize(
    ("tensor", "written"),
    [
        (torch.tensor([0.485, 0.456, 0.406, 123.675, -0.0001]), True),
        (torch.tensor([0.485, 0.456, 0.406, 123.675, -0.0001], dtype=torch.float32).double(), True),
        (torch.tensor([1.0, 0.0, -1.0, 2.0, 0.0, -2.0]), True),
        (torch.rand(4), True),  # few
        (torch.rand(5), False),
        (torch.ones(256), True),
        (torch.ones(257), False),
        (torch.arange(256), True),
        (torch.arange(257), False),
    ],
)
def test_what_a_person_would_write(tensor: Tensor, written: bool) -> None:
    assert is_written(tensor) is written


@pytest.mark.thin(4)
@pytest.mark.parametrize("cls", HIDING)
def test_a_parameter_that_a_function_reaches_is_that_parameter(cls: type[nn.Module]) -> None:
    module = cls()
    runs = both_runs(module, torch.randn(5, 6), None)
    assert runs.doubled
    for graph in runs.graphs.values():
        assert not graph.constants and set(graph.held.values()) == set(module.state_dict())


@pytest.mark.sweep
@pytest.mark.daily(3)
@pytest.mark.parametrize("cls", HIDING)
def test_its_translation_agrees(cls: type[nn.Module]) -> None:
    torch.manual_seed(0)
    translation = port.translate(cls(), torch.randn(5, 6))
    assert translation.proof is not None and translation.proof.agrees, str(translation.proof)
    defined = [node for node in ast.walk(ast.parse(translation.source)) if isinstance(node, ast.FunctionDef)]
    called = [ast.unparse(node) for node in defined if node.name == "__call__"]
    assert translation.proof.precision == "float64" and "jnp.array(" not in "".join(called)


class Reading(nn.Module):
    """Reads something that it holds in one of several ways, after a layer that torch knows."""

    def __init__(self, held: Any = None, **attributes: Any) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 6)
        self.held = held
        vars(self).update(attributes)

    def forward(self, x: Tensor) -> Tensor:
        return self.held(self.fc(x))


class Listed(Reading):
    def forward(self, x: Tensor) -> Tensor:
        return self.held[0](self.fc(x))


class Queried(Reading):
    def forward(self, x: Tensor) -> Tensor:
        return self.held.query(self.fc(x))


class Times(Reading):
    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x) @ self.table


class OfTheClass(Reading):
    shared = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.shared(self.fc(x))


class Global(Reading):
    def forward(self, x: Tensor) -> Tensor:
        return LAYER(self.fc(x)) + TABLE[0]


class Turned(Reading):
    """Holds its weight transposed: an optimizer's step changes it, but an earlier capture does not see that."""

    def __init__(self, scale: bool = False) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(1))
        self.turned = self.scale.detach() if scale else self.fc.weight.data.t()

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x) * self.turned.sum() * self.scale


def closing() -> Any:
    layer = nn.Linear(6, 6)
    return lambda x: torch.relu(layer(x))


UNKNOWN = "is read, and torch does not know that"
NEITHER = "is read, and is neither a parameter nor a buffer"


@pytest.mark.thin(8)
@pytest.mark.parametrize(
    ("build", "why"),
    [
        (lambda: Listed([nn.Linear(6, 6)]), rf"Listed.held\[0\].weight \(6×6\) {UNKNOWN} Listed holds it \(self.held "),
        (lambda: Listed(deque([nn.Linear(6, 6)])), rf"Listed.held\[0\].weight \(6×6\) {UNKNOWN}"),
        (lambda: Listed({0: nn.Conv1d(5, 5, 1)}), rf"Listed.held\[0\].weight \(5×5×1\) {UNKNOWN}"),
        (lambda: Reading(closing()), rf"Reading.held → layer.weight \(6×6\) {UNKNOWN}"),
        (lambda: Reading(nn.Linear(6, 6).forward), rf"Reading.held.__self__.weight \(6×6\) {UNKNOWN}"),
        (lambda: Queried(Parts(nn.PReLU(), torch.relu)), rf"Queried.held.query.weight \(1\) {UNKNOWN}"),
        (OfTheClass, rf"OfTheClass.shared.weight \(6×6\) {UNKNOWN}"),
        (Global, rf"Global → global LAYER.weight \(6×6\) {UNKNOWN}"),
        (lambda: Times(table=torch.randn(6, 6)), rf"Times.table \(6×6\) {NEITHER}"),
        (lambda: Reading(lambda x, table=TABLE[:1]: x + table), rf"Reading.held → a default \(1×6\) {NEITHER}"),
        (lambda: Reading(lambda x: x + TABLE[0]), rf"Reading.held → global TABLE \(6×6\) {NEITHER}"),
        (Turned, r"Turned.turned \(6×6\) is read, and is a view of a parameter or a buffer \(self.turned is"),
        (lambda: Turned(scale=True), r"Turned.turned \(1\) is read, and is a view of a parameter"),
    ],
)  # fmt: skip
def test_state_that_hides(build: Any, why: str) -> None:
    with pytest.raises(NoPair, match=rf"test_constants.py:\d+: {why}"):
        both_runs(build(), torch.randn(5, 6), None)


class Counts(nn.Module):
    """Writes to an unregistered tensor; a list hides statistics that eval() does not reach."""

    def __init__(self, hidden: bool) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 6)
        self.norms = [nn.BatchNorm1d(6, affine=False)] if hidden else []
        if not hidden:
            self.seen = torch.zeros(3)

    def forward(self, x: Tensor) -> Tensor:
        if not self.norms:
            self.seen += 1
        for norm in self.norms:
            x = norm(x)
        return self.fc(x)


@pytest.mark.parametrize(("hidden", "what"), [(False, r"Counts\.seen"), (True, r"Counts\.norms\[0\]\.running_mean")])
@pytest.mark.sweep
def test_state_that_is_written_to(hidden: bool, what: str) -> None:
    with pytest.raises(NoPair, match=rf"forward writes to a tensor .* neither a parameter nor a buffer \({what}"):
        both_runs(Counts(hidden), torch.randn(5, 6), None)


class Normalised(nn.Module):
    """Numbers as plain attributes: image statistics, an edge filter, the root of a length."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.mean = torch.tensor([0.485, 0.456, 0.406])
        self.edge = torch.tensor([[1.0, 0.0, -1.0], [2.0, 0.0, -2.0], [1.0, 0.0, -1.0]])
        self.root = torch.sqrt(torch.tensor(7.0))

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x - self.mean) @ self.edge / self.root + torch.tensor([0.125, 0.25, 0.5])


def test_numbers_are_no_state() -> None:
    runs = both_runs(Normalised(), torch.randn(5, 3), None)
    assert runs.doubled and sorted(value.numel() for value in runs.graphs[True].constants.values()) == [1, 3, 3, 9]
