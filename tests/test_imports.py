"""What importing costs, what it drags in, and that every public name is there."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from importlib import import_module

import pytest

import port


def modules_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_import_port_is_light():
    assert not {"torch", "jax", "flax", "matplotlib", "numpy", "rich", "tyro"} & modules_after("import port")


@pytest.mark.parametrize(
    "statement",
    [
        "import side_by_side.jax.train",
        "import port; port.load, port.Recorder, port.PlanSource, port.compare, port.initial_weights",
        "from port.cli.compare import main",
        "from port.data import load_examples; load_examples('digits', train=True)",
    ],
)
def test_the_jax_side_imports_no_torch(statement):
    assert "torch" not in modules_after(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "import side_by_side.pytorch.train",
        "import port; port.share_initial_weights",
        "from port.scripts.recording.original_run import record_original",
    ],
)
def test_the_torch_side_imports_no_jax(statement):
    assert "jax" not in modules_after(statement)


def test_importing_every_submodule_hides_no_public_name():
    names = [m.name for m in pkgutil.walk_packages(port.__path__, "port.") if not m.name.endswith("__main__")]
    for name in names:
        import_module(name)
    for name in port.__all__:
        assert callable(getattr(port, name)), name
    for package in ("data", "lessons", "records", "weights", "training", "report", "pairs", "mapping", "nn"):
        room = getattr(port, package)
        for name in room.__all__:
            assert not isinstance(getattr(room, name), type(sys)), f"port.{package}.{name} is hidden by a module"


def test_dir_lists_what_there_is():
    assert set(port.__all__) <= set(dir(port))
    with pytest.raises(AttributeError):
        port.nothing  # noqa: B018
