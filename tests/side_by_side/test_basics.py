"""The basics: where the two sides agree they do to the last digits, and where they differ it is as the lesson says."""

from __future__ import annotations

import ast
import math
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

import side_by_side.jax.basics as ours
import side_by_side.pytorch.basics as theirs

LESSONS = {"pytorch": theirs, "jax": ours}


@pytest.fixture(autouse=True)
def x64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def source(lesson: Any) -> str:
    return Path(lesson.__file__).read_text(encoding="utf-8")


def assert_same(our: dict[str, Any], their: dict[str, Any], *names: str) -> None:
    """In float64, where the two round apart in the sixteenth digit (P2)."""
    for name in names:
        np.testing.assert_allclose(our[name], their[name], rtol=1e-13, atol=1e-16, err_msg=name)


# Arrays


def test_dtypes():
    everywhere = {"int32 + 1": "int32", "bfloat16 + 1.0": "bfloat16", "int32 + float32": "float32"}
    floats = ("a list of floats", "int32 + 1.0", "booleans * 2.0", "float32 + float64 ()")
    ints = ("a list of ints", "sum of int32")
    given = ("float64 from numpy", "float64 asked for")

    def table(of_floats: str, of_ints: str, of_given: str) -> dict[str, str]:
        kinds = ((floats, of_floats), (ints, of_ints), (given, of_given))
        return everywhere | {name: dtype for names, dtype in kinds for name in names}

    assert theirs.dtypes() == table("float32", "int64", "float64")
    assert ours.dtypes() == table("float64", "int64", "float64")
    with jax.enable_x64(False), pytest.warns(UserWarning, match="will be truncated to dtype float32") as warned:
        assert ours.dtypes() == table("float32", "int32", "float32")
    assert len(warned) == 1  # for the one that asks


def test_indices():
    one_added_once = {"1 added at 1 and 1": [0, 1, 0, 0], "accumulated there": [0, 2, 0, 0]}
    assert theirs.indices() == one_added_once | {
        "x": [9, 1, 7, 8],
        "part of x": [7, 8],
        **dict.fromkeys(("x[7]", "x[-7]", "take 7", "x[7] = 9"), "IndexError"),
        "2 from 3 on": "RuntimeError",
    }
    indices = ours.indices()
    assert math.isnan(indices.pop("take 7"))
    assert indices == one_added_once | {
        "x": [0, 1, 2, 3],
        "part of x": [7, 8],
        "x[7]": 3,
        "x[-7]": 0,
        "x[7] = 9": [0, 1, 2, 3],
        "2 from 3 on": [2, 3],
    }
    assert math.isnan(jnp.arange(4.0).at[7].get(mode="fill"))


def test_broadcasting():
    our, their = ours.broadcasting(), theirs.broadcasting()
    assert_same(our, their, "the loss", "wrongly")
    assert abs(our["the loss"] - our["wrongly"]) > 0.1
    assert (our["checked"], their["checked"]) == ("ValueError", "UserWarning")


# Functions of functions


@pytest.mark.sweep
@pytest.mark.parametrize("x", [0.7, -1.3])
def test_derivatives(x):
    sin, cos, exp = math.sin(2 * x), math.cos(2 * x), math.exp(-x)
    right = [
        3 * x**2 * sin + 2 * x**3 * cos - exp,
        (6 * x - 4 * x**3) * sin + 12 * x**2 * cos + exp,
        (6 - 36 * x**2) * sin + (36 * x - 8 * x**3) * cos - exp,
    ]
    found = [*ours.derivatives(x).values(), *theirs.derivatives(x).values()]
    assert len(found) == 3
    for way in found:
        np.testing.assert_allclose(way, right, rtol=1e-13)


def test_programs(optimized):
    their, our = theirs.programs(), ours.programs()
    assert their["traced"] == ["pow", "mul", "sin", "mul", "neg", "exp", "add"]
    assert [name.split(".")[1] for name in their["run"]] == their["traced"]
    assert our["traced"] == ["integer_pow", "mul", "sin", "mul", "neg", "exp", "add"]
    assert our["run"] == ["fusion"]
    assert {"multiply", "sine", "negate", "exponential", "add"} <= set(our["fused"])


@pytest.mark.sweep
def test_traces():
    alike = {"one shape": 1, "four shapes in one": 1, "two dtypes": 2, "an int and a float": 2, "three lengths": 3}
    assert theirs.traces() == alike | {"four shapes": 2, "three floats": 2, "2 outside, now 3": 3}
    assert ours.traces() == alike | {"four shapes": 4, "three floats": 1, "2 outside, now 3": 2}


@pytest.mark.sweep
def test_per_sample():
    our, their = ours.per_sample(), theirs.per_sample()
    assert_same(our, their, "gradients", "their mean")
    assert our["the same in a loop"] is their["the same in a loop"] is True
    w, x, y = (theirs.draw(*shape, seed=seed).numpy() for seed, shape in enumerate([(3,), (2, 3), (2,)]))
    np.testing.assert_allclose(our["gradients"], 2 * (x @ w - y)[:, None] * x, rtol=1e-13)


# Numbers and state


@pytest.mark.sweep
def test_random_numbers():
    names = ("drawn again", "drawn after another", "drawn in a resumed run")
    assert theirs.random_numbers() == dict(zip(names, (False, False, True), strict=True))
    assert ours.random_numbers() == dict.fromkeys(names, True)
    key, rngs = jax.random.key(0), nnx.Rngs(0)
    assert (jax.random.split(key)[1] == jax.random.fold_in(key, 1)).all()
    assert (rngs.normal(3) != rngs.normal(3)).all()  # a stream counts on


def test_trees():
    our, their = ours.trees(), theirs.trees()
    kernels = {name.removeprefix("layers.").replace("kernel", "weight"): shape for name, shape in our["shapes"].items()}
    assert kernels.keys() == their["shapes"].keys()
    assert {name: shape[::-1] for name, shape in kernels.items()} == their["shapes"]
    assert our["the state after an update"] == their["the state after an update"] == 5
    assert list(our["leaves"].items()) == [("['a'][0]", 2), ("['b'][0]", 1)]
    assert list(their["leaves"].items()) == [("['b'][0]", 1), ("['b'][1]", None), ("['a'][0]", 2)]
    assert our["mapped"] == their["mapped"] == {"a": (-2,), "b": [-1, None]}
    assert (our["another shape"], their["another shape"]) == ([9, 9], "RuntimeError")


def test_what_keeps_a_state():
    model = ours.Centred()
    kept = nnx.to_pure_dict(nnx.state(model))
    model.weight[...] = jnp.zeros(3)
    np.testing.assert_array_equal(kept["weight"], ours.draw(3))


def test_control_flow():
    our, their = ours.control_flow(), theirs.control_flow()
    assert (their["if, compiled"], their["if, in one graph"]) == (2, "Unsupported")
    assert (our["if, compiled"], our["if, in one graph"]) == ("TracerBoolConversionError", 2)
    assert_same(our, their, "sqrt(2) and its gradient", "moving average")
    np.testing.assert_allclose(our["sqrt(2) and its gradient"], [math.sqrt(2), 1 / math.sqrt(8)], rtol=1e-14)
    assert math.isnan(our["where"])
    assert math.isnan(their["where"])
    assert our["where, safe inside"] == their["where, safe inside"] == 0


def test_stateful():
    our, their = ours.stateful(), theirs.stateful()
    assert_same(our, their, "losses", "weight", "mean")
    assert our["losses"][0] > our["losses"][1] > our["losses"][2]
    assert our["the model's own mean"] == their["the model's own mean"] == 0
    assert our["after a compiled call"] == 0

    model, twin, x = ours.Centred(), theirs.Centred(), theirs.draw(4, 3, seed=1)
    nnx.jit(ours.Centred.__call__)(model, x.numpy())
    twin(x)
    assert their["after a compiled call"] == twin.mean.item() != 0
    np.testing.assert_allclose(model.mean[...], twin.mean, rtol=1e-14)  # nnx.jit keeps it


def test_debugging(recwarn):
    with warnings.catch_warnings(action="error"):
        our, their = ours.debugging(), theirs.debugging()
    traced, *printed = our["printed"]
    assert traced.startswith("print ")
    assert "float64[]" in traced
    assert printed == ["debug.print 1.0", "debug.print 2.0"]
    assert their["printed"] == ["print tensor(1.)", "print tensor(2.)"]
    assert math.isnan(our["sqrt(-1)"])
    assert math.isnan(their["sqrt(-1)"])
    assert math.isnan(their["sqrt(-1), watched"])
    assert their["its gradient, watched"] == "RuntimeError"
    assert our["sqrt(-1), watched"] == our["its gradient, watched"] == "FloatingPointError"
    assert our["sqrt(-1), checked"] == "nan generated by primitive: sqrt."
    x = torch.tensor(-1.0, requires_grad=True)
    with (
        pytest.warns(UserWarning, match=r"(?s)Error detected in SqrtBackward0.*forward call"),
        pytest.raises(RuntimeError, match="SqrtBackward0"),
        torch.autograd.set_detect_anomaly(True),
    ):
        torch.sqrt(x).backward()


# The lesson itself


def test_twelve_cells_are_shown_by_their_titles():
    for side, lesson in LESSONS.items():
        titles = [line[5:] for line in source(lesson).splitlines() if line.startswith("# %% ")]
        (main,) = [node for node in ast.parse(source(lesson)).body if getattr(node, "name", "") == "main"]
        calls = [node for node in ast.walk(main) if isinstance(node, ast.Call) and ast.unparse(node.func) == "show"]
        shown = [call.args[0].value for call in sorted(calls, key=lambda call: call.lineno)]
        assert len(titles) == 13
        assert [title for title in shown if not title.endswith(", with x64")] == titles[:-1], side


def test_neither_side_imports_the_other():
    for lesson, others in ((theirs, {"jax", "flax", "optax", "port"}), (ours, {"torch", "port"})):
        imported = set()
        for node in ast.walk(ast.parse(source(lesson))):
            if isinstance(node, ast.Import):
                imported |= {name.name.split(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module.split(".")[0])
        assert imported >= {"numpy", "__future__"}
        assert not imported & others


@pytest.mark.sweep
@pytest.mark.parametrize("side", LESSONS)
def test_alone_it_prints_what_it_shows(side):
    titles = [line[5:] for line in source(LESSONS[side]).splitlines() if line.startswith("# %% ")]
    command = [sys.executable, "-P", "-W", "error", "-m", f"side_by_side.{side}.basics"]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", timeout=240)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.isascii()  # whatever the terminal
    printed = done.stdout.splitlines()
    shown = [line[2:] for line in printed if line.startswith("# ")]
    assert [title for title in shown if title != "Arrays and their dtypes, with x64"] == titles[:-1]
    results = [line for line in printed if not line.startswith("# ")]
    assert len(results) > 50
    assert all(line.startswith("    ") and ": " in line for line in results)
