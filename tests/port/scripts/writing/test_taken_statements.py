"""What a written original.py takes of a script, and in which order its draws are then made."""

from __future__ import annotations

import ast

import pytest

from port.scripts.writing.taken_statements import kills, taken_statements

SCRIPT = """\
import torch
torch.manual_seed(3)
model = Model(2)
data = torch.randn(100)
def get_batch():
    return data[torch.randint(len(data), (4,))]
"""


def taken(script: str, model: str = "nothing") -> tuple[list[str], list[str]]:
    tree = ast.parse(script)
    models = [one for one in tree.body if ast.unparse(one).startswith(model)]
    found = taken_statements(tree, tree.body, tree.body, [], {"get_batch"}, models)
    return [ast.unparse(one) for one in found.definitions], [ast.unparse(one) for one in found.body]


def test_data_that_a_function_needs_is_drawn_behind_its_seed() -> None:
    top, below = taken(SCRIPT)
    assert top.index("torch.manual_seed(3)") < top.index("data = torch.randn(100)") and not below


def test_what_is_drawn_behind_a_models_weights_stays_behind_them() -> None:
    top, below = taken(SCRIPT, "model")
    places = [below.index(one) for one in ("model = Model(2)", "data = torch.randn(100)")]
    assert places == sorted(places) and below[-1].startswith("def get_batch") and top == ["import torch"]


@pytest.mark.parametrize(
    ("statement", "names"), [("x = 1", {"x"}), ("x = x + 1", set()), ("x += 1", set()), ("x[0] = 1", set())]
)
def test_names_whose_value_before_is_gone(statement: str, names: set[str]) -> None:
    assert kills(ast.parse(statement).body[0]) == names
