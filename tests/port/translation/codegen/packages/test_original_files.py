"""The file that defines a class; none for a class from a notebook or from `exec`."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
from torch import nn

from port.translation.codegen.packages.original_files import definition_of
from port.translation.frontend.single_layer import SingleLayerModel


@dataclass(repr=False)  # so that all of its functions are generated
class Configuration:
    width: int = 3


class Layer(nn.Module):
    def forward(self, x: object) -> object:
        return x


def test_of_a_file() -> None:
    for original in (Layer, Configuration, test_of_a_file):
        found = definition_of(original)
        assert (found.name, found.module, found.file) == (original.__name__, __name__, str(Path(__file__).absolute()))


def test_of_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "class Net:\n    def forward(self, x):\n        return x\n"
    here: dict[str, object] = {"__name__": __name__}
    exec(text, here)
    assert definition_of(here["Net"]).file is None, "though its module has one"
    notebook = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", notebook)
    exec(compile(text, "<ipython-input-3>", "exec"), vars(notebook))
    found = definition_of(notebook.Net)
    assert (found.module, found.file, found.is_own) == ("__main__", None, True)


def test_torch_s_own_are_of_no_file_of_the_project() -> None:
    for original in (nn.Linear, SingleLayerModel):
        found = definition_of(original)
        assert not found.is_own and found.file is None


def test_a_script_has_its_file_s_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "train_it.py"
    path.write_text("class Net:\n    def forward(self, x):\n        return x\n")
    spec = importlib.util.spec_from_file_location("__main__", path)
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "__main__", script)
    spec.loader.exec_module(script)
    script.__spec__ = None
    assert (definition_of(script.Net).module, definition_of(script.Net).file) == ("train_it", str(path))
