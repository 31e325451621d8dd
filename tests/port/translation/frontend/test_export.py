"""The capture: its graph describes the run, and the module is left unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from port.errors import NoPair
from port.translation.frontend import instrument
from port.translation.frontend.diagnostics import captured
from port.translation.frontend.free_lengths import free_lengths
from port.translation.frontend.instrument import TensorSlot, with_slots
from port.translation.frontend.leaf_modules import kept_layers
from port.translation.frontend.source_locations import is_users
from port.translation.frontend.trials import Trials
from port.translation.ir.graph import Graph, LayerCall, Operation, each_value, mapped
from port.translation.ir.module_calls import ScopeEnter, ScopeExit

HERE = Path(__file__)


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        return self.linear(x) * scale


class Whole(nn.Module):
    """One module called twice, a part without gradients, buffers written in two ways, arguments in trees."""

    count: Tensor
    mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()
        self.again = self.inner
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, pair: tuple[Tensor, Tensor], *, given: dict[str, Tensor], scale: float = 2.0) -> dict[str, Any]:
        first, second = pair
        x = self.inner(first)
        with torch.no_grad():
            target = second.exp()
        x = self.again(x + target, scale=scale)
        if self.training:
            self.count += 1  # in place
            self.mean = 0.9 * self.mean + 0.1 * x.mean(0)  # another one in its place
        return {"out": x * given["gain"], "n": 3}


def graph_of(module: nn.Module, *args: Any, training: bool = False, **kwargs: Any) -> Graph:
    free = free_lengths(Trials(module, args, kwargs))
    return captured(module, args, kwargs, training=training, layers=kept_layers(module), free=free)


@pytest.fixture(scope="module")
def module() -> Whole:
    return Whole().eval()


def given_to_whole() -> tuple[Any, dict[str, Any]]:
    x = torch.randn(4, 3)
    return ((x, x + 1),), {"given": {"gain": torch.ones(3)}, "scale": 3.0}


@pytest.fixture(scope="module")
def graphs(module: Whole) -> dict[bool, Graph]:
    args, kwargs = given_to_whole()
    return {training: graph_of(module, *args, training=training, **kwargs) for training in (False, True)}


@pytest.mark.sweep
def test_the_module_is_left_as_it_was(module: Whole, graphs: dict[bool, Graph]) -> None:
    assert not module.training
    assert all("forward" not in vars(inner) for inner in module.modules())
    assert module.count == 0 and not module.mean.any()


def test_every_call_of_a_module_has_a_beginning_and_an_end(graphs: dict[bool, Graph]) -> None:
    marks = [
        ("enter" if isinstance(step, ScopeEnter) else "leave", step.path, step.call)
        for step in graphs[False].steps
        if isinstance(step, ScopeEnter | ScopeExit)
    ]
    # A module under two names goes by its first one.
    assert marks == [
        ("enter", "", 0),
        ("enter", "inner", 0),
        ("leave", "inner", 0),
        ("enter", "inner", 1),
        ("leave", "inner", 1),
        ("leave", "", 0),
    ]


def test_a_call_knows_what_it_was_given_by_the_names_of_its_parameters(graphs: dict[bool, Graph]) -> None:
    first, second = [step for step in graphs[False].steps if isinstance(step, ScopeEnter) and step.path == "inner"]
    assert first.arguments["x"] is graphs[False].inputs[0]
    assert second.arguments["scale"] == 3.0


def test_the_tensors_of_trees_come_in_their_order_and_results_in_theirs(graphs: dict[bool, Graph]) -> None:
    graph = graphs[False]
    root = graph.steps[0]
    assert isinstance(root, ScopeEnter)
    assert list(each_value(root.arguments)) == list(graph.inputs)
    assert root.arguments["pair"] == (graph.inputs[0], graph.inputs[1])
    assert root.arguments["given"] == {"gain": graph.inputs[2]}
    assert root.arguments["scale"] == 3.0
    last = graph.steps[-1]
    assert isinstance(last, ScopeExit) and list(last.results) == ["out", "n"] and last.results["n"] == 3
    assert [value.rank for value in graph.inputs] == [2, 2, 1]


def test_the_batch_is_free_and_other_lengths_are_numbers(graphs: dict[bool, Graph]) -> None:
    first, second, gain = graphs[False].inputs
    assert first.shape is not None and isinstance(first.shape[0], str) and first.shape[1] == 3
    assert first.shape == second.shape
    assert first.dtype == gain.dtype == "float32"


def test_a_layer_is_kept_whole(graphs: dict[bool, Graph]) -> None:
    calls = [step for step in graphs[False].steps if isinstance(step, LayerCall)]
    assert [call.path for call in calls] == ["inner.linear", "inner.linear"]
    assert isinstance(calls[0].module, nn.Linear)


def test_what_stood_without_gradients_is_known(graphs: dict[bool, Graph]) -> None:
    detached = [step.operator for step in graphs[True].steps if isinstance(step, Operation) and step.detached]
    assert detached == ["aten.exp.default"]


def test_buffers_that_are_written_to(graphs: dict[bool, Graph]) -> None:
    assert all(value in graphs[False].held for value in graphs[False].written.values())
    assert {"count", "mean"} <= set(graphs[True].written)
    made = {value for step in graphs[True].steps if isinstance(step, Operation) for value in step.results}
    assert {graphs[True].written[name] for name in ("count", "mean")} <= made


def line_of(text: str) -> int:
    """The number of the first line of this file with a text."""
    return next(n for n, line in enumerate(HERE.read_text().splitlines(), 1) if text in line)


def test_steps_know_their_line(graphs: dict[bool, Graph]) -> None:
    (mean,) = [step for step in graphs[True].steps if isinstance(step, Operation) and "mean" in step.operator]
    assert str(mean.place) == f"{HERE}:{line_of('self.mean = 0.9')}"
    first = next(step for step in graphs[False].steps if isinstance(step, LayerCall))
    assert str(first.place) == f"{HERE}:{line_of('return self.linear(x) * scale')}"


@pytest.mark.xfail(strict=True, reason="what torch.no_grad() holds is traced a second time, without the user's frames")
def test_steps_without_gradients_know_their_line(graphs: dict[bool, Graph]) -> None:
    (exp,) = [step for step in graphs[False].steps if isinstance(step, Operation) and "exp" in step.operator]
    assert str(exp.place) == f"{HERE}:{line_of('target = second.exp()')}"


class Cond(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))  # type: ignore[no-any-return]


@pytest.mark.sweep
def test_control_flow_of_torchs_own_is_refused() -> None:
    with pytest.raises(NoPair, match=r"test_export.py:\d+: torch's cond is kept as control flow"):
        graph_of(Cond(), torch.randn(3))


def test_holes_take_the_place_of_tensors_and_give_it_back() -> None:
    a, b = torch.ones(2), torch.zeros(3)
    tree, tensors, sizes = with_slots({"a": (a, 3, None), "b": [b, "text"]})
    assert tree == {"a": (TensorSlot("tensor", 0), 3, None), "b": [TensorSlot("tensor", 1), "text"]}
    assert (len(tensors), sizes) == (2, [])
    back = pytree.tree_map(lambda leaf: tensors[leaf.number] if isinstance(leaf, TensorSlot) else leaf, tree)
    assert back["a"][0] is a and back["b"][0] is b


def test_trees_are_mapped_leaf_by_leaf(graphs: dict[bool, Graph]) -> None:
    one, two = graphs[False].inputs[:2]
    tree = {"a": (one, [two, 3]), "b": slice(None)}
    assert mapped(tree, lambda value: value.name) == {"a": (one.name, [two.name, 3]), "b": slice(None)}
    assert list(each_value((tree, slice(one, None)))) == [one, two, one]


@pytest.mark.parametrize(
    ("file", "users"),
    [
        ("/home/me/net.py", True),
        ("/env/site-packages/torch/nn/modules/module.py", False),
        ("/env/site-packages/torchvision/models/resnet.py", True),
        ("<frozen>", False),
        ("torch/nn.py", False),
    ],
)
def test_whose_a_file_is(file: str, users: bool) -> None:
    assert is_users(file) == users


class Twice(nn.Module):
    """One layer, called with two shapes; the second call's input has the strides of a transposed one."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = nn.AvgPool1d(2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.pool(x), self.pool(x[:, :, 1:].transpose(0, 1)[:, :, :5])


@pytest.mark.parametrize("free", [False, True])
def test_a_layer_is_asked_for_its_shapes_once_a_call(free: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    shapes_of = instrument.shapes_of

    def counted(module: nn.Module, *others: Any, **options: Any) -> Any:
        asked.append(type(module).__name__)
        return shapes_of(module, *others, **options)

    monkeypatch.setattr(instrument, "shapes_of", counted)
    module, x = Twice(), torch.randn(2, 3, 8)
    lengths = free_lengths(Trials(module, (x,), {})) if free else ()
    graph = captured(module, (x,), {}, training=False, layers=kept_layers(module), free=lengths)
    assert asked == ["AvgPool1d"] * 2
    calls = [step for step in graph.steps if isinstance(step, LayerCall)]
    shapes = [tuple(value.shape) for call in calls for value in each_value(call.results)]
    if free:
        assert [len(shape) for shape in shapes] == [3, 3] and any(not isinstance(n, int) for n in shapes[0])
    else:
        assert shapes == [tuple(result.shape) for result in module(x)] == [(2, 3, 4), (3, 2, 2)]
