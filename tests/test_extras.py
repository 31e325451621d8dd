"""Each combination of extras: what needs no more works, what needs more names it in one line and does nothing.

Here the packages of the other extras cannot be imported. ``.ci/run`` makes an environment of its own for each
combination, names it in ``PORT_EXTRAS``, and runs this file there, with nothing held back.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Set
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import port
from absent import ABSENT, OF_EXTRAS, WITH_THE_CORE, missing_without, without
from port.cli import COMMANDS
from port.extras import EXTRAS

ROOT = Path(__file__).parents[1]
CORE = "core"
REAL = os.environ.get("PORT_EXTRAS", "")
"""The extras of the environment that this runs in; empty where all are installed and packages are held back."""
in_one_that_has_all = pytest.mark.skipif(bool(REAL), reason="holds packages back, in an environment that has all")
COMBINATIONS = [REAL] if REAL else [CORE, *EXTRAS, "all"]

NETS = """
import jax
from flax import nnx

class Net(nnx.Module):
    def __init__(self, *, rngs):
        self.hidden = nnx.Linear(4, 6, rngs=rngs)
        self.head = nnx.Linear(6, 3, rngs=rngs)

    def __call__(self, x):
        return self.head(nnx.relu(self.hidden(x)))
"""
TORCH_NETS = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(4, 6)
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        return self.head(torch.relu(self.hidden(x)))
"""
SCRIPT = """
import torch
from nets_torch import Net

model, generator = Net(), torch.Generator().manual_seed(0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = model(torch.randn(5, 4, generator=generator)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
DRIVER = """
import contextlib, json, sys, tempfile
from pathlib import Path

def files():
    return sorted(str(path) for path in Path().rglob("*") if "__pycache__" not in path.parts)

def ran(case):
    out, errors = (tempfile.TemporaryFile("w+", encoding="utf-8") for _ in range(2))
    before, code, error = files(), None, None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        try:
            if isinstance(case, list):
                from port.cli import main
                code = main(case)
            else:
                exec(case, {})
        except SystemExit as end:
            code = end.code
        except Exception as raised:
            error = [type(raised).__name__, str(raised), list(getattr(raised, "packages", ()))]
    changed = files() != before
    out.seek(0), errors.seek(0)
    return {"out": out.read(), "errors": errors.read(), "code": code, "error": error, "changed": changed}

Path("results.json").write_text("{}")
results = [ran(case) for case in json.loads(Path("cases.json").read_text())]
Path("results.json").write_text(json.dumps({"results": results, "modules": sorted(sys.modules)}))
"""


class Case(NamedTuple):
    """A command's arguments, or Python; and the packages of extras that it needs.

    Attributes:
        is_plain: it is a lesson, whose imports fail as any program's do.
    """

    what: list[str] | str
    needs: Set[str] = frozenset()
    is_plain: bool = False


MAKE_NET = "import numpy as np; from flax import nnx; from nets import Net; net = Net(rngs=nnx.Rngs(0)); "
TRANSLATES = set(EXTRAS["translate"])
PAGE = {"jinja2", "plotly"}
MODELS = ["nets_torch:Net", "nets:Net", "--input", "5,4"]
CASES = {
    **{f"{command} --help": Case([command, "--help"]) for command in COMMANDS},
    "convert": Case(["convert", "net.safetensors", "--flax", "nets:Net", "-o", "net.npz"]),
    "convert to msgpack": Case(["convert", "net.safetensors", "--flax", "nets:Net", "-o", "net.msgpack"]),
    "convert back": Case(["convert", "net.npz", "--reverse", "-o", "back.safetensors"]),
    "convert to orbax": Case(["convert", "net.safetensors", "--flax", "nets:Net", "-o", "net.orbax"], {"orbax"}),
    "convert --torch": Case(["convert", "net.safetensors", "--torch", "nets_torch:Net", "-o", "t.npz"], {"torch"}),
    "check of two nnx modules": Case(["check", "nets:Net", "nets:Net", "--input", "5,4"]),
    "check": Case(["check", *MODELS, "--torch-weights", "net.safetensors"], {"torch", "psutil"}),
    "match": Case(["match", *MODELS, "-o", "mapping.toml"], {"torch", "psutil"}),
    "translate": Case(["translate", "nets_torch:Net", "--input", "5,4", "-o", "ported"], TRANSLATES),
    "script --observe-only": Case(["script", "script.py", "--observe-only", "-o", "seen"], {"torch", "psutil"}),
    "script": Case(["script", "script.py", "-o", "script_jax"], TRANSLATES),
    "train": Case(
        ["train", "--model", "mlp", "--steps", "3", "--precision", "float64", "--plain", "--out", "run"],
        {"torch", *EXTRAS["train"], "matplotlib", *PAGE},
    ),
    "compare": Case(["compare", "a.jsonl", "b.jsonl"]),
    "compare --html": Case(["compare", "a.jsonl", "b.jsonl", "--html", "page.html"], PAGE),
    "diff": Case(["diff"]),
    "skill": Case(["skill"]),
    "mcp --list": Case(["mcp", "--list"], {"mcp", "pydantic"}),
    "report": Case(["report", "runs"], PAGE),
    "report -o": Case(["report", "runs", "-o", "page.html"], PAGE),
    "diff LESSON": Case(["diff", "train"]),
    "diff --table": Case(["diff", "--table"]),
    "diff --table --json": Case(["diff", "--table", "--json"]),
    "diff --html": Case(["diff", "train", "--html", "site"], {"torch", "jinja2", "pygments", "markdown_it", "griffe"}),
    "port.load": Case(MAKE_NET + "port.load(net, 'net.npz')"),
    "port.save": Case(MAKE_NET + "port.save(net, 'saved.safetensors')"),
    "port.to_flax": Case(MAKE_NET + "port.to_flax('net.safetensors', target=net)"),
    "port.to_torch": Case(MAKE_NET + "port.to_torch(net)", {"torch"}),
    "port.check_flax": Case(MAKE_NET + "assert port.check_flax(net, net, np.ones((5, 4)))"),
    "port.CheckReport": Case("port.CheckReport"),
    "port.check": Case("port.check", {"torch"}),
    "port.match": Case("port.match", {"torch"}),
    "from port.matching import match": Case("from port.matching import match", {"torch"}),
    "port.Match": Case("assert port.Match"),
    "from port.data import PlanSampler": Case("from port.data import PlanSampler", {"torch"}),
    "from port.random import key": Case("from port.random import key", {"torch"}),
    "from port.translation import Translation": Case("from port.translation import Translation", {"torch"}),
    "port.translate": Case("port.translate", TRANSLATES),
    "port.PlanSampler": Case("port.PlanSampler", {"torch"}),
    "port.shared_dropout": Case("port.shared_dropout", {"torch"}),
    "port.dropout_key": Case("port.dropout_key(0, 1)", {"torch"}),
    "port.data.load_examples": Case("port.data.load_examples('digits', train=True)", {"sklearn"}),
    "port.data.DATASETS": Case("port.data.DATASETS['mnist']"),
    "port.training.train": Case("port.training.train", {"psutil"}),
    "port.training.Outcome": Case("port.training.Outcome"),
    "port.report.write_run_page": Case("port.report.write_run_page", {"jinja2"}),
    "from port.report.page import write_run_page": Case("from port.report.page import write_run_page", {"jinja2"}),
    "from port.report.site import write_site": Case(
        "from port.report.site import write_site", {"jinja2", "pygments", "markdown_it", "griffe"}
    ),
    "the JAX trainer alone": Case(
        "import runpy, sys; sys.argv = ['train', '--model', 'mlp', '--steps', '3', '--precision', 'float64', '--out', "
        "'alone']; runpy.run_module('side_by_side.jax.train', run_name='__main__', alter_sys=True)",
        {"grain", "sklearn", "orbax"},
        is_plain=True,
    ),
}


def installed(combination: str) -> set[str]:
    """The packages of extras that there are in an environment."""
    if REAL:
        return {package for package in OF_EXTRAS if find_spec(package) is not None}
    return OF_EXTRAS - missing_without(chosen(combination))


def chosen(combination: str) -> list[str]:
    """The extras of a combination."""
    return list(EXTRAS) if combination == "all" else [combination] if combination in EXTRAS else []


class Results(NamedTuple):
    """What the cases gave in one environment: each in its own words, and what the process had imported in the end."""

    present: set[str]
    of: dict[str, dict[str, Any]]
    modules: set[str]
    folder: Path


def run(cases: dict[str, Case], combination: str, folder: Path) -> Results:
    """Run cases one after the other in a process where the packages of other extras are missing."""
    random = np.random.default_rng(0)
    shapes = {"hidden.weight": (6, 4), "hidden.bias": (6,), "head.weight": (3, 6), "head.bias": (3,)}
    arrays = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    save_file(arrays, folder / "net.safetensors")
    for name, text in (("nets.py", NETS), ("nets_torch.py", TORCH_NETS), ("script.py", SCRIPT)):
        (folder / name).write_text(text)
    for name in ("a.jsonl", "b.jsonl", "runs/one/float64/torch.jsonl", "runs/one/float64/jax.jsonl"):
        with port.Recorder(folder / name, precision="float64") as record:
            for step in range(5):
                record(step, loss=1 / (step + 1))
    told = [case.what if isinstance(case.what, list) else f"import port; {case.what}" for case in cases.values()]
    (folder / "cases.json").write_text(json.dumps(told))
    present = installed(combination)
    program = ("" if REAL else without(missing_without(chosen(combination)))) + DRIVER
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads((folder / "results.json").read_text())
    return Results(present, dict(zip(cases, found["results"], strict=True)), set(found["modules"]), folder)


def assert_works_or_is_refused(name: str, case: Case, result: dict[str, Any], present: set[str]) -> None:
    """A case works, or one line says what to install, and no file was made."""
    missing = case.needs - present
    kind, message = (result["error"] or ["", ""])[:2]
    if not missing:
        assert not kind and result["code"] in (None, 0), (name, result)
        return
    if case.is_plain:
        assert kind == "ModuleNotFoundError", (name, result)
        return
    is_command = isinstance(case.what, list)
    assert result["code"] == 2 if is_command else kind == "MissingExtra", (name, result)
    said = result["errors"] if is_command else message
    line = re.fullmatch(r"(?:port: )?(.+) needs (.+), which (?:is|are) not installed here: pip install (.+)\n?", said)
    assert line is not None, (name, result)
    assert set(line[2].split(", ")) <= missing and not result["changed"], (name, result)
    extras = re.search(r"\[([a-z,]+)\]", line[3])
    assert extras is not None and set(line[2].split(", ")) <= {p for e in extras[1].split(",") for p in EXTRAS[e]}, said


@in_one_that_has_all
def test_without_extras_a_command_says_what_to_install(tmp_path: Path) -> None:
    refused = {name: case for name, case in CASES.items() if case.needs and not case.is_plain}
    del refused["port.to_torch"]  # to make its model takes JAX, and too long for here
    results = run(refused, CORE, tmp_path)
    for name, case in refused.items():
        assert_works_or_is_refused(name, case, results.of[name], results.present)


@pytest.mark.sweep
@pytest.mark.parametrize("combination", COMBINATIONS)
def test_a_combination_of_extras(combination: str, tmp_path: Path) -> None:
    results = run(CASES, combination, tmp_path)
    assert set(EXTRAS.get(combination, OF_EXTRAS if combination == "all" else ())) <= results.present
    for name, case in CASES.items():
        assert_works_or_is_refused(name, case, results.of[name], results.present)
    assert ("torch" in results.modules) == ("torch" in results.present)
    there, back = load_file(tmp_path / "net.safetensors"), load_file(tmp_path / "back.safetensors")
    assert there.keys() == back.keys()
    for key, array in there.items():
        np.testing.assert_array_equal(back[key], array)


@in_one_that_has_all
def test_a_case_that_is_not_refused_is_seen(tmp_path: Path) -> None:
    """The planted fault: told that torch is missing where it is not, and that it is there where it is not."""
    case = Case("port.dropout_key(0, 1)", {"torch"})
    result = run({"key": case}, CORE, tmp_path).of["key"]
    assert_works_or_is_refused("key", case, result, set())
    with pytest.raises(AssertionError):
        assert_works_or_is_refused("key", case, result, {"torch"})
    with pytest.raises(AssertionError):
        assert_works_or_is_refused("key", case, result | {"error": None}, set())


def test_the_extras_are_those_of_the_project() -> None:
    imported = {"scikit-learn": "sklearn", "orbax-checkpoint": "orbax"}
    imported |= {"markdown-it-py": "markdown_it", "griffelib": "griffe"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    told = {
        extra: tuple(imported.get(name, name) for name in (re.split(r"[><=\[;]", each)[0] for each in packages))
        for extra, packages in project["optional-dependencies"].items()
    }
    assert {extra: told[extra] for extra in EXTRAS} == EXTRAS
    assert project["optional-dependencies"]["all"] == [f"port[{','.join(EXTRAS)}]"]
    core = {re.split(r"[><=]", each)[0] for each in project["dependencies"]}
    assert not core & (OF_EXTRAS | set(imported))


@pytest.mark.skipif(not REAL, reason="PORT_EXTRAS names no environment")
def test_the_environment_holds_what_it_should() -> None:
    assert "site-packages" in str(port.__file__)
    present = installed(REAL)
    assert (WITH_THE_CORE | set(EXTRAS.get(REAL, ()))) <= present
    if REAL in (CORE, "orbax"):
        assert not ABSENT & present
