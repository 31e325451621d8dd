"""The emitted text: a linter and a formatter accept it, and Python runs it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from ruff.__main__ import find_ruff_bin  # type: ignore[import-untyped]
from torch import Tensor, nn

import port
from port.translation.codegen.emit import WIDTH, formatted

from ..nets import Attention, Blocks, Small, translated

NETS = pytest.mark.parametrize("cls", [Small, Attention, Blocks])


def ruff(text: str, *command: str) -> str:
    done = subprocess.run(
        [find_ruff_bin(), *command, "--isolated", "--line-length", str(WIDTH), "-"],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    return f"{done.returncode} {done.stdout}"


@NETS
@pytest.mark.sweep
def test_a_linter_finds_nothing(cls: type[nn.Module]) -> None:
    assert (
        ruff(
            translated(cls)[1].source,
            "check",
            "--config",
            'lint.isort.known-third-party = ["port"]',
            "--quiet",
            "--select",
            "E,F,W,I,UP",
        )
        == "0 "
    )


@NETS
def test_a_formatter_changes_nothing(cls: type[nn.Module]) -> None:
    assert ruff(translated(cls)[1].source, "format", "--check", "--quiet") == "0 "


@NETS
def test_all_imports_are_used_and_none_is_of_torch(cls: type[nn.Module]) -> None:
    tree = ast.parse(translated(cls)[1].source)
    imported = [
        (alias.asname or alias.name).partition(".")[0]
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom) and getattr(node, "module", "") != "__future__"
        for alias in node.names
    ]
    read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert set(imported) <= read
    assert len(imported) == len(set(imported))
    assert "torch" not in imported


@NETS
def test_it_compiles_without_a_warning(cls: type[nn.Module]) -> None:
    compile(translated(cls)[1].source, "translated.py", "exec", dont_inherit=True)


def test_the_classes_say_whose_they_are_and_the_root_comes_last() -> None:
    tree = ast.parse(translated(Blocks)[1].source)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    assert (classes[0].name, classes[-1].name) == ("Block", "Blocks")
    assert ast.get_docstring(tree) == "Blocks, translated from PyTorch to Flax NNX."
    # What the original says of itself comes first.
    paragraph = "One of several in a model, of another width and with another constant each."
    assert ast.get_docstring(classes[0]) == f"{paragraph}\n\nTranslated from {Blocks.__module__}.Block."
    assert [node.name for node in tree.body if isinstance(node, ast.FunctionDef)] == ["load"]


def test_text_is_formatted_its_imports_sorted_and_unused_ones_dropped() -> None:
    text = "import sys\nimport os\nfrom flax import nnx\nx = {'a':os.sep,\n'b':nnx}\n"
    made = formatted(text)
    assert made == 'import os\n\nfrom flax import nnx\n\nx = {"a": os.sep, "b": nnx}\n'
    assert formatted(made) == made


def test_what_is_no_python_is_not_formatted() -> None:
    with pytest.raises(AssertionError, match="ruff rejects the generated source"):
        formatted("def (")


def test_a_layer_of_which_nothing_is_left_is_not_written() -> None:
    classes = [node.name for node in ast.parse(translated(Blocks)[1].source).body if isinstance(node, ast.ClassDef)]
    assert classes == ["Block", "Blocks"]


def test_the_text_is_the_same_wherever_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "from safetensors.numpy import load_file\nfrom port.nn import Buffer\n\nprint(Buffer, load_file)\n"
    monkeypatch.chdir(tmp_path)
    before = formatted(text)
    (tmp_path / "port" / "nn").mkdir(parents=True)
    for folder in ("port", "port/nn"):
        (tmp_path / folder / "__init__.py").touch()
    assert formatted(text) == before


@pytest.mark.sweep
def test_it_is_imported_where_there_is_no_torch() -> None:
    """In a Python of its own, in which an import of torch fails."""
    source = translated(Blocks)[1].source
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "module = {'__file__': 'blocks.py', '__name__': 'blocks'}\n"
        f"exec({source!r}, module)\n"
        "from flax import nnx\nimport numpy as np\n"
        "print(module['Blocks'](rngs=nnx.Rngs(0))(np.zeros((1, 4), int))['logits'].shape)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(1, 4, 7)"


class BatchNorm(nn.Module):
    """Has the name of a layer that port.nn has, which it is written with."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x: Tensor, repeats: int) -> Tensor:
        return self.norm(x).relu().repeat(repeats, 1)


class Twice(nn.Module):
    """Reads a length of what it no longer has a name for, and gives it on."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([BatchNorm(), BatchNorm()])

    def forward(self, x: Tensor) -> Tensor:
        count = x.shape[2]
        x = x.mean(2)
        for norm in self.norms:
            x = norm(x, count)
        return x


@pytest.mark.sweep
def test_a_class_with_the_name_of_a_layer_and_lengths_that_are_given_on() -> None:
    translation = port.translate(Twice(), torch.randn(4, 3, 2))
    assert "self.norm = port.nn.BatchNorm(3" in translation.source
    assert "def __call__(self, x: jax.Array, repeats: int) -> jax.Array:" in translation.source
    assert translation.proof is not None and translation.proof.agrees, str(translation.proof)
