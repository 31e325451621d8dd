"""The table of operators: what its expressions name is there."""

from __future__ import annotations

import ast
import subprocess
import sys
from typing import Any

import pytest
import torch

from port.pairs.notes import note
from port.pairs.ops import GIVEN, OPERATORS, OperatorPair

IMPORTED = {
    name.asname or name.name.partition(".")[0]
    for node in ast.walk(ast.parse(GIVEN))
    if isinstance(node, ast.Import | ast.ImportFrom)
    for name in node.names
}
BUILTINS = {
    "bool",
    "int",
    "float",
    "str",
    "tuple",
    "isinstance",
    "hasattr",
    "len",
    "map",
    "slice",
    "zip",
    "range",
    "all",
    "min",
    "sum",
    "set",
    "getattr",
}


def names_in(source: str) -> set[str]:
    names = [node for node in ast.walk(ast.parse(source, mode="eval")) if isinstance(node, ast.Name)]
    return {node.id for node in names} - {node.id for node in names if isinstance(node.ctx, ast.Store)}


def unknown_names(pair: OperatorPair) -> set[str]:
    """What its expressions name that is neither a variable of the call nor imported."""
    sources = filter(None, (pair.jax, pair.only_if, pair.other_gradient))
    drawn = set() if pair.draws is None else {pair.draws.name}
    return set().union(*map(names_in, sources)) - names_in(pair.says) - IMPORTED - BUILTINS - drawn


def test_both_sides_speak_of_the_same() -> None:
    assert {pair.says: unknown_names(pair) for pair in OPERATORS if unknown_names(pair)} == {}
    assert {pair.says for pair in OPERATORS if not set(pair.left_out) <= names_in(pair.says)} == set()


def test_another_name_is_seen() -> None:
    pair = OperatorPair("torch.cat", "aten.cat", "torch.cat(tensors, dim)", "jnp.concatenate(tensors, axis=axis)")
    assert unknown_names(pair) == {"axis"}


@pytest.mark.parametrize("pair", OPERATORS, ids=lambda pair: pair.torch)
@pytest.mark.thin(50)
def test_torch_has_what_is_named(pair: OperatorPair) -> None:
    where: Any = torch
    for name in pair.torch.split(".")[1:]:
        where = getattr(where, name)
    method = pair.torch.startswith("torch.Tensor.")
    assert pair.says.startswith(f"input.{name}" if method else f"{pair.torch}(")
    assert not pair.aten or hasattr(torch.ops.aten, pair.aten.removeprefix("aten."))


def test_every_note_is_there() -> None:
    assert all(note(id) for pair in OPERATORS for id in pair.notes)


def test_no_two_say_the_same() -> None:
    assert len({(pair.says, pair.only_if) for pair in OPERATORS}) == len(OPERATORS)


def test_no_framework_is_imported() -> None:
    code = "import sys, port.pairs.ops; print(*{'torch', 'jax', 'flax'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
