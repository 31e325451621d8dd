"""What the table of old tutorials says is so: each row is run, the old code and the new."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import warnings
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

from port.pairs.tutorials import GIVEN, OUTDATED, Fate, Outdated

ROWS = {row.id: row for row in OUTDATED}
SINE = [np.sin(1), np.sin(2), np.sin(3)]
STEP = {"b": -0.1, "w": [0.9, 0.8, 0.7]}
KERNEL = [[-0.2], [-1.4], [-2.6]]
# What is gone gives nothing to compare with.
EXPECTED = {
    "T1": {"b": 0, "w": [2, 2, 2]},
    "T2": STEP,
    "T3": [0, [1, 1, 1]],
    "T5": [5, 2, 3],
    "T6": [3, 2, 3],
    "T7": True,
    "T8": False,
    "T9": True,
    "T10": [1, 2, 3],
    "T11": ([[1, 2, 3], [1, 2, 3]], [True, True, True], 4),
    "T12": (6, True, True),
    "T13": [1.5, 2, 2.5],
    "T14": 3,
    "T15": [-np.sqrt(1.5), 0, np.sqrt(1.5)],
    "T17": [1, 2, 3],
    "T18": [1, 4, 9],
    "T21": True,
    "T23": [2, 4, 6],
    "T24": [1, 3, 6],
    "T25": 6,
    "T26": True,
    "T27": np.ones(3),
    "T28": "cpu",
    "T29": (3,),
    "T30": "double",
    "T31": (3,),
    "T32": SINE,
    "T33": True,
    "T35": [1, 2, 3],
    "T36": [1, 2, 3],
    "T39": SINE,
    "T40": SINE,
    "T42": (1,),
    "T43": STEP,
    "T45": STEP,
    "T46": (1,),
    "T50": KERNEL,
    "T51": KERNEL,
    "T53": 2,
    "T58": {"b": -0.1, "w": [-0.101, -0.201, -0.301]},
}


@pytest.fixture(scope="module")
def given() -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "tutorial"}
    exec(GIVEN, names)
    return names


def run(code: str, given: dict[str, Any]) -> tuple[Any, list[warnings.WarningMessage]]:
    """What the code leaves in ``result``, and its warnings."""
    for name, module in list(sys.modules.items()):  # JAX gives each of its warnings once a process
        forget = getattr(vars(module).get("__getattr__"), "cache_clear", None)
        if name.partition(".")[0] in ("jax", "optax") and forget is not None:
            forget()
    names = dict(given)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec(compile(code, "tutorial", "exec"), names)
    return names["result"], caught


def untrue(row: Outdated, given: dict[str, Any]) -> list[str]:
    """What the row says and is not so."""
    found = []
    result, caught = run(row.today, given)
    found += [f"today's code warns: {each.message}" for each in caught]
    if row.fate is Fate.GONE:
        if not same(result, EXPECTED[row.id]):
            found.append(f"today's code gives {result}")
        try:
            run(row.says, given)
        except Exception as error:
            return found if type(error).__name__ == row.error else [*found, f"it raises {error!r}"]
        return [*found, "it is not gone"]
    old, caught = run(row.says, given)
    if not same(old, result):
        found.append(f"{old} is not {result}")
    if bool(caught) != (row.fate is Fate.WARNS):
        found.append(f"its warnings are {[str(each.message) for each in caught]}")
    return found


def same(a: Any, b: Any) -> bool:
    """Numbers as far as float32 has them; trees leaf by leaf, a list being as good as an array."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and not all(isinstance(each, int | float) for each in a):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, str | bool):
        return a == b
    return np.shape(a) == np.shape(b) and np.allclose(a, b, rtol=1e-5, atol=1e-5)


def settings() -> tuple[object, ...]:
    return dict(jax.config.values), dict(os.environ), os.getcwd(), list(warnings.filters)


@pytest.mark.thin(6)
@pytest.mark.parametrize("row", OUTDATED, ids=lambda row: row.id)
def test_a_row_is_true(row: Outdated, given: dict[str, Any]) -> None:
    before = settings()
    try:
        assert untrue(row, given) == []
    finally:
        assert settings() == before


GONE, WARNS, WORKS = ROWS["T1"], ROWS["T56"], ROWS["T4"]
PLANTED: dict[str, tuple[Outdated, str]] = {
    "gone, and it works": (replace(WORKS, id="T1", fate=Fate.GONE, error="AttributeError"), "it is not gone"),
    "gone, and it warns": (replace(WARNS, id="T14", fate=Fate.GONE, error="AttributeError"), "it is not gone"),
    "gone, with another error": (replace(GONE, error="ImportError"), "it raises AttributeError"),
    "gone, and today's code is another": (replace(GONE, today="result = jax.tree.map(jnp.cos, params)"), "gives"),
    "it warns, and it does not": (replace(WORKS, fate=Fate.WARNS), r"its warnings are \[\]"),
    "it works, and it warns": (replace(WARNS, fate=Fate.WORKS), "its warnings are .*optax.tree.norm"),
    "today's code warns": (replace(WARNS, today=WARNS.says), "today's code warns"),
    "another result": (replace(WORKS, today="result = jax.tree.map(jnp.ndim, params)"), "is not"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_false_row_is_seen(name: str, given: dict[str, Any]) -> None:
    row, found = PLANTED[name]
    assert re.search(found, "\n".join(untrue(row, given)))


@pytest.mark.parametrize("field", ["says", "today"])
def test_one_that_should_work_and_raises_is_seen(field: str, given: dict[str, Any]) -> None:
    with pytest.raises(AttributeError, match="nothing"):
        untrue(replace(WORKS, **{field: "result = jnp.nothing"}), given)


def test_ids_are_in_order() -> None:
    assert list(ROWS) == [f"T{number}" for number in range(1, len(OUTDATED) + 1)]


@pytest.mark.parametrize("row", OUTDATED, ids=lambda row: row.id)
def test_a_row_is_complete(row: Outdated) -> None:
    for code in (row.says, row.today):
        assert code == code.strip("\n")
        assert max(map(len, code.splitlines())) <= 110
        assigned = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name | ast.alias)]
        assert any(getattr(node, "id", "") == "result" for node in assigned)
    assert row.says != row.today
    assert row.happened == row.happened.strip()
    assert row.happened.endswith(".")
    assert not row.torch or row.torch.endswith(".")
    assert bool(row.error) == (row.fate is Fate.GONE) == (row.id in EXPECTED)


def test_no_framework_is_imported() -> None:
    code = "import sys, port.pairs.tutorials; print(*{'torch', 'jax', 'flax', 'optax'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
