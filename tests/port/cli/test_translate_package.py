"""`port translate --package`: a file for each of the original's, which is what is proved, imported and proved again."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from flax import nnx

from port.cli import main
from port.errors import BrokenWeights
from port.translation.verify.reverify import prove_files

# The proof filters an nnx.State with a method that flax is about to take away.
pytestmark = pytest.mark.filterwarnings("ignore:`flax.nnx.State` will be deprecated:DeprecationWarning")

PROJECT = {
    "__init__.py": "",
    "layers/__init__.py": "from .attention import Attention\n",
    "layers/attention.py": """
import torch
from torch import nn

from ..norms import Norm


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = Norm(dim)
        self.lin = nn.Linear(dim, dim)

    def forward(self, x):
        return self.lin(self.norm(x)) + x


class Attention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query = nn.Linear(dim, dim)
        self.block = Block(dim)

    def forward(self, x):
        weights = torch.softmax(self.query(x) @ x.transpose(1, 2), -1)
        return weights @ self.block(x)
""",
    "norms.py": """
import torch
from torch import nn


class Norm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * self.scale
""",
    "heads/__init__.py": "",
    # A file, and a class, of the same names as others.
    "heads/model.py": """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, dim, out):
        super().__init__()
        self.first = nn.Linear(dim, out)
        self.norm = nn.BatchNorm1d(out)

    def forward(self, x):
        return torch.tanh(self.norm(self.first(x.mean(1))))
""",
    "model.py": """
from dataclasses import dataclass

from torch import nn

from .heads.model import Block
from .layers import Attention
from .norms import Norm


@dataclass
class Config:
    dim: int = 6
    out: int = 3


class Net(nn.Module):
    def __init__(self, config=Config(dim=4)):
        super().__init__()
        self.attention = Attention(config.dim)
        self.norm = Norm(config.dim)
        self.head = Block(config.dim, config.out)

    def forward(self, x):
        return self.head(self.norm(self.attention(x)))
""",
}
NET = ("packaged_project.model:Net", "--input", "2,5,4")
FILES = ["heads/__init__.py", "heads/model.py", "layers/__init__.py", "layers/attention.py", "model.py", "norms.py"]
BESIDE = ["net.mapping.toml", "net.safetensors", "report.md", "test_net.py"]


def run(*arguments: str) -> int:
    return main(["translate", *arguments])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a project of several files, where the user stands."""
    folder = tmp_path_factory.mktemp("several")
    for file, text in PROJECT.items():
        path = folder / "packaged_project" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "path", [str(folder), *sys.path])
        yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] in ("packaged_project", "net_jax", "alone")]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def written(place: Path) -> tuple[Path, str]:
    """The package, and what was said of it."""
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(said):
        patch.chdir(place)
        assert run(*NET, "--package", "-o", "net_jax") == 0
    return place / "net_jax", said.getvalue()


def original(net_jax: ModuleType) -> tuple[Any, Any]:
    """The original with the numbers of the package's files, and its twin."""
    import port

    theirs = importlib.import_module("packaged_project.model").Net().eval()
    folder = Path(str(net_jax.__file__)).parent
    state = port.to_torch(folder / "net.safetensors")
    theirs.load_state_dict({name: torch.as_tensor(np.asarray(array)) for name, array in state.items()})
    ours = net_jax.load()
    ours.eval()
    return theirs, ours


def test_the_files_are_listed(written: tuple[Path, str]) -> None:
    folder, said = written
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if "__pycache__" not in path.parts)
    assert [file for file in files if "." in file] == sorted(["__init__.py", *FILES, *BESIDE])
    assert said.startswith("Both sides are the same model in float64")
    assert f"written to net_jax: {', '.join(sorted(['__init__.py', *FILES, *BESIDE]))}\n" in said.replace("\\", "/")
    report = (folder / "report.md").read_text("utf-8")
    assert "from net_jax import load  # needs no torch\n" in report
    assert "- `layers/attention.py`: `Block`, `Attention`\n- `model.py`: `Config`, `Net`, `load`\n" in report


def test_imported_from_its_parent_it_computes_the_same(written: tuple[Path, str], place: Path) -> None:
    net_jax = importlib.import_module("net_jax")
    attention = importlib.import_module("net_jax.layers.attention")
    heads = importlib.import_module("net_jax.heads.model")
    theirs, ours = original(net_jax)
    assert type(ours.attention.block) is attention.Block and type(ours.head) is heads.Block is not attention.Block
    x = torch.randn(3, 7, 4)
    np.testing.assert_allclose(np.asarray(nnx.jit(ours)(x.numpy())), theirs(x).detach().numpy(), rtol=1e-4, atol=1e-5)
    new = net_jax.Net(net_jax.Config(dim=5), rngs=nnx.Rngs(3))
    assert new(np.ones((2, 3, 5), np.float32)).shape == (2, 3)


@pytest.mark.sweep
def test_it_needs_no_torch_from_anywhere(written: tuple[Path, str], place: Path, tmp_path: Path) -> None:
    code = "import sys; from net_jax.model import load; load(); assert 'torch' not in sys.modules"
    for command in (["-c", code], ["-W", "ignore", "-m", "net_jax.model"]):
        environment = {"PYTHONPATH": f"{place}:{Path(sys.modules['port'].__file__ or '').parents[1]}", "PATH": ""}
        done = subprocess.run(
            [sys.executable, *command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr


def test_the_written_test_passes(written: tuple[Path, str]) -> None:
    importlib.import_module("net_jax.test_net").test_it_is_the_same_model()


@pytest.mark.sweep
def test_another_operator_in_a_file_fails_it(written: tuple[Path, str]) -> None:
    folder, _ = written
    attention = folder / "layers" / "attention.py"
    text = attention.read_text()
    assert text.count("nnx.softmax(") == 1
    try:
        attention.write_text(text.replace("nnx.softmax(", "nnx.log_softmax("))
        with pytest.raises(AssertionError, match="both sides DIFFER"):
            importlib.import_module("net_jax.test_net").test_it_is_the_same_model()
    finally:
        attention.write_text(text)


def test_a_folder_that_is_no_package(written: tuple[Path, str]) -> None:
    folder, _ = written
    module = importlib.import_module("packaged_project.model")
    init = (folder / "__init__.py").read_text()
    (folder / "__init__.py").unlink()
    try:
        with pytest.raises(BrokenWeights, match=r"is not a package: it has no __init__\.py"):
            prove_files(folder, module.Net(), torch.randn(2, 5, 4))
    finally:
        (folder / "__init__.py").write_text(init)
    with pytest.raises(BrokenWeights, match="holds 0 mappings"):
        prove_files(folder / "layers", module.Net(), torch.randn(2, 5, 4))


@pytest.mark.sweep
def test_without_weights_the_root_alone_is_given(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    assert run(*NET, "--package", "--meta", "-o", "ported/large") == 4
    folder = place / "ported" / "large"
    assert (folder / "__init__.py").read_text().count("from .model import Config, Net\n") == 1
    assert not list(folder.rglob("*.safetensors")) and not (folder / "test_net.py").exists()
    report = (folder / "report.md").read_text("utf-8")
    assert "from large import Config, Net\n" in report and (folder / "heads" / "model.py").is_file()
    monkeypatch.syspath_prepend(str(folder.parent))
    made: dict[str, Any] = {}
    usage = report.partition("```python\n")[2].partition("port.load(")[0]  # as far as it needs no checkpoint
    exec(usage, made)
    assert type(made["model"]).__name__ == "Net" and made["model"].attention.query.kernel.shape == (4, 4)


@pytest.mark.sweep
def test_standalone_and_as_json(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(place)
    assert run(*NET, "--package", "--standalone", "--json", "-o", "alone") == 0
    result = json.loads(capsys.readouterr().out)
    assert {Path(file).name for file in result["files"]} >= {"from_port.py", "attention.py", "net.safetensors"}
    sources = {path: path.read_text() for path in (place / "alone").rglob("*.py") if path.name != "test_net.py"}
    assert not any(re.search(r"^\s*(import|from) port\b", text, re.M) for text in sources.values())
    code = "import sys; import alone; alone.load(); assert not {'torch', 'port'} & {*sys.modules}"
    done = subprocess.run([sys.executable, "-c", code], cwd=place, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    module = importlib.import_module("packaged_project.model")
    assert prove_files(place / "alone", module.Net(), torch.randn(2, 5, 4)).agrees


@pytest.mark.sweep
def test_the_written_files_please_a_linter(written: tuple[Path, str]) -> None:
    ruff = [sys.executable, "-m", "ruff"]
    select = ["--select", "E,F,I,UP", "--line-length", "120", "--isolated"]
    for command in (["check", *select], ["format", "--check", "--isolated", "--line-length", "120"]):
        done = subprocess.run([*ruff, *command, str(written[0])], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


REFUSED = {
    "no folder": ((*NET, "--package"), "imported by its folder's name: pass one, -o FOLDER"),
    "nothing written": ((*NET, "--package", "--dry-run"), "--dry-run writes nothing: leave --package out"),
    "no name of Python's": ((*NET, "--package", "-o", "net-jax"), "'net-jax' is not a valid name in Python"),
    "a keyword": ((*NET, "--package", "-o", "x/class"), "'class' is not a valid name in Python"),
    "a module's name": ((*NET, "--package", "-o", "json"), "would hide another module named json"),
    "there already": ((*NET, "--package", "-o", "packaged_project"), "is there already"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(place)
    arguments, said = REFUSED[case]
    before = set(place.iterdir())
    assert run(*arguments) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert set(place.iterdir()) == before
