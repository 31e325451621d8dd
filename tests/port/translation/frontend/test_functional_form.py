"""In-place operators become functional ones; all others stay, however few composite operators are registered."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from port.translation.frontend import composite_operators as composite_of_torch
from port.translation.frontend import functional_form
from port.translation.frontend.functional_form import composite_operators, functional

from ..sampled import samples_of

pytestmark = pytest.mark.filterwarnings("ignore")  # torch warns of its own samples


class Calls(torch.nn.Module):
    """A function of tensors."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def exported(function: Callable[..., Any], *args: Any) -> Any:
    return torch.export.export(Calls(function), args, strict=False)


def as_torch_does(program: Any) -> str:
    return said(program.run_decompositions({}))


def said(program: Any) -> str:
    """The graph of a program, independent of the names of its values."""
    names: dict[str, str] = {}
    for node in program.graph.nodes:
        names[node.name] = f"v{len(names)}"
    return re.sub(r"%(\w+)", lambda name: names[name[1]], "\n".join(map(_line, program.graph.nodes)))


def _line(node: torch.fx.Node) -> str:
    target = "" if node.op == "placeholder" else str(node.target)
    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda other: f"%{other.name}")
    if isinstance(node.target, torch._ops.OpOverload):
        # By name, and without what is nothing: how they were given is no difference.
        names = [argument.name for argument in node.target._schema.arguments]
        kwargs = dict(zip(names, args, strict=False)) | kwargs
        args, kwargs = (), {name: kwargs[name] for name in names if kwargs.get(name) is not None}
    if "assert_msg" in kwargs:  # it names a node
        kwargs = kwargs | {"assert_msg": re.sub(r"on node '(\w+)'", r"on node '%\1'", kwargs["assert_msg"])}
    return f"%{node.name} = {target} {args} {kwargs}"


def written_in_place(x: Any) -> Any:
    y = x * 2
    y[:, 1:].mul_(3).relu_()
    y[0] = 1.5
    return torch.nn.functional.linear(y.flatten(1), x.reshape(2, -1)).softmax(-1)


def test_what_is_written_in_place_is_made_anew() -> None:
    program = exported(written_in_place, torch.randn(2, 3))
    theirs, made = as_torch_does(program), said(functional(program))
    assert made == theirs
    assert "aten.linear" in made and "_." not in made


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.nn.functional.relu6(x + 1, inplace=True),
        lambda x: torch.nn.functional.selu((x + 1), inplace=True),
        lambda x: (x + 1).absolute_().float_power(2.0).square_(),
        lambda x: (x + 1).ldexp_(x),  # aten::ldexp is a function of numbers alone
        lambda x: torch.nn.functional.alpha_dropout(x, 0.5, True),
        lambda x: torch.nn.functional.dropout(x, 0.5, True),
        lambda x: torch.linalg.svd(x)[1] + torch.linalg.svdvals(x),
        lambda x: torch.cartesian_prod(x[0], x[1]),
        lambda x: torch.nn.functional.batch_norm(x, torch.zeros(3), torch.ones(3), training=True),
        lambda x: torch.nn.functional.hardshrink(x, 0.3),
        lambda x: torch.einsum("ij,kj->ik", x, x).kron(x).diff().type_as(x).to(torch.float32),
    ],
)
def test_the_graph_is_that_which_torch_makes(function: Callable[..., Any]) -> None:
    program = exported(function, torch.randn(2, 3))
    theirs = as_torch_does(program)
    assert said(functional(program)) == theirs


def test_a_composite_operator_of_ones_own_stays() -> None:
    library = torch.library.Library("port_tests_composite", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CompositeImplicitAutograd")
    program = exported(lambda x: torch.ops.port_tests_composite.twice(x) + 1, torch.randn(2, 3))
    theirs = as_torch_does(program)
    assert said(functional(program)) == theirs


def test_torch_is_told_of_few() -> None:
    program = exported(written_in_place, torch.randn(2, 3))
    staying = composite_operators(program)
    assert staying is not None and 1 <= len(staying) < 10
    assert torch.ops.aten.linear.default in staying


def test_what_has_unknown_parts_has_torch_told_of_all() -> None:
    svd = exported(lambda x: torch.linalg.svd(x), torch.randn(2, 3))
    selu = exported(lambda x: torch.nn.functional.selu(x + 1, inplace=True), torch.randn(2))
    assert composite_operators(svd) is not None and composite_operators(selu) is None


@pytest.mark.parametrize(
    ("module", "name"),
    [(functional_form, "_SPLIT"), (functional_form, "_KEEP"), (composite_of_torch, "_STAYS")],
)
def test_another_torch_makes_the_same(module: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = exported(written_in_place, torch.randn(2, 3))
    made = as_torch_does(program)
    monkeypatch.setattr(module, name, "a_name_that_no_torch_has")
    assert composite_operators(program) is None
    assert said(functional(program)) == made


def test_an_operator_that_is_not_told_is_decomposed(monkeypatch: pytest.MonkeyPatch) -> None:
    program = exported(written_in_place, torch.randn(2, 3))
    monkeypatch.setattr(functional_form, "composite_operators", lambda program: set())
    theirs = as_torch_does(program)
    assert said(functional(program)) != theirs


@pytest.mark.sweep
@pytest.mark.daily(8)
@pytest.mark.parametrize("part", range(16))
def test_every_operator_of_torchs_database(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends, "disable_global_flags", lambda: None)
    from torch.testing._internal.common_methods_invocations import op_db

    compared = 0
    for info in op_db[part::16]:
        for sample in samples_of(info, 2) if "jiterator" not in info.name else ():
            for operator in filter(None, (info.op, info.inplace_variant)):

                def call(x: Any, operator: Any = operator, sample: Any = sample) -> Any:
                    fresh = pytree.tree_map_only(torch.Tensor, lambda leaf: leaf * 1, x)
                    return operator(fresh, *sample.args, **sample.kwargs)

                try:
                    program = exported(call, sample.input)
                    theirs = as_torch_does(program)
                except Exception:  # what torch does not export, or refuses in place
                    continue
                assert said(functional(program)) == theirs, info.name
                compared += 1
    assert compared > 20
