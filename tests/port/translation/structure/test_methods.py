"""Methods that a module calls on itself are written once, under their names, and called in the same places."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest
import torch

import port
from port.translation import Translation
from port.translation.verify.proving import prove
from tests.port.translation.agreeing import translated
from tests.port.translation.method_nets import (
    Borrowing,
    Counting,
    Derived,
    DropsItself,
    Encoder,
    Handing,
    InstancesDiffer,
    NormedInAMethod,
    Optional,
    Recursive,
    Stepping,
    TwoWays,
)

pytestmark = pytest.mark.filterwarnings("ignore")


def _methods(made: Translation) -> dict[str, list[str]]:
    """The methods of each class, in their order."""
    tree = ast.parse(made.source)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return {
        node.name: [each.name for each in node.body if isinstance(each, ast.FunctionDef) and each.name != "__init__"]
        for node in classes
    }


@pytest.mark.sweep
def test_methods_stay_where_they_are() -> None:
    made = translated(Encoder(), torch.randn(2, 5, 12), construct=Encoder)
    assert _methods(made) == {
        "Attention": ["split_heads", "__call__", "attend"],
        "Block": ["feed_forward", "__call__"],
        "Encoder": ["encode", "pool", "__call__"],
    }
    assert "self.attend(self.split_heads(q), self.split_heads(k), self.split_heads(v))" in made.source
    assert '        """Give each head an axis of its own."""\n        B, T, C = x.shape\n' in made.source
    assert "return x + self.feed_forward(x, 0.5) + self.feed_forward(self.norm(x), 2.0)" in made.source
    # A length of an argument is read off it: the width is free.
    assert "q.shape[-1] ** -0.5" in made.source
    assert made.proof_at({"dim": 16, "depth": 3, "heads": 2}).agrees


@pytest.mark.sweep
def test_a_fault_in_a_method_is_found() -> None:
    module, x = Encoder(depth=1), torch.randn(2, 5, 12)
    made = port.translate(module, (x,))
    faulty = replace(made, source=made.source.replace("* scale", "* -scale"))
    assert faulty.source != made.source
    assert not prove(module, faulty, (x,), {}).agrees


@pytest.mark.sweep
def test_one_whose_calls_do_different_things_is_written_where_it_is_called() -> None:
    made = translated(TwoWays(), torch.randn(3, 6))
    assert _methods(made) == {"TwoWays": ["__call__"]}


@pytest.mark.sweep
def test_one_that_differs_between_instances_stands_behind_a_condition() -> None:
    made = translated(InstancesDiffer(), torch.randn(3, 6))
    assert _methods(made) == {"Gated": ["__call__"], "InstancesDiffer": ["__call__"]}
    assert "if self.gate is not None:" in made.source


@pytest.mark.sweep
def test_one_that_writes_to_a_buffer() -> None:
    made = translated(Counting(), torch.randn(3, 6))
    assert "centred" in _methods(made)["Counting"]


def test_one_in_the_place_of_a_bases_and_one_that_is_called_as_flaxs() -> None:
    made = translated(Derived(), torch.randn(3, 6))
    assert _methods(made) == {"Derived": ["__call__", "prepared"]}


@pytest.mark.sweep
def test_a_method_of_another_module_is_that_ones() -> None:
    made = translated(Borrowing(), torch.randn(3, 6))
    assert _methods(made)["Borrowing"] == ["__call__"]


@pytest.mark.sweep
def test_one_by_the_name_of_what_is_added_is_written_out() -> None:
    for construct in (None, DropsItself):
        made = translated(DropsItself(), torch.randn(3, 6), construct=construct, static=True)
        assert _methods(made)["DropsItself"] == ["__call__"]


@pytest.mark.sweep
def test_each_round_of_a_loop_calls_it() -> None:
    made = translated(Stepping(), torch.randn(3, 5, 6))
    assert _methods(made) == {"Stepping": ["next_state", "__call__"]}
    assert "lax.scan(step, h, jnp.swapaxes(x, 0, 1))" in made.source


@pytest.mark.sweep
def test_one_that_is_given_to_a_function_has_its_own_parameters() -> None:
    made = translated(Handing(), torch.randn(3, 6))
    assert "feed_forward" in _methods(made)["Handing"]


def test_one_that_calls_itself_is_written_out() -> None:
    made = translated(Recursive(), torch.randn(3, 6))
    assert _methods(made)["Recursive"][-1] == "__call__"


@pytest.mark.sweep
def test_what_it_is_given_in_some_calls_alone() -> None:
    cases = [((torch.randn(3, 6),), {}), ((torch.randn(3, 6), torch.rand(3, 6) > 0.5), {})]
    made = port.translate(Optional(), cases=cases)
    assert made.proof is not None and made.proof.agrees, str(made.proof)
    assert "if mask is not None:" in made.source


def test_a_length_of_a_parameter_is_no_variable_of_a_method() -> None:
    made = translated(NormedInAMethod(), torch.randn(2, 5, 6), static=True)
    assert made.proof is not None and made.proof.agrees
    assert "def scaled(self, x: jax.Array) -> jax.Array:" in made.source
