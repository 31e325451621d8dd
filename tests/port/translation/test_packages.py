"""`port.translate(…, package=True)`: the package is what is built and compared, and computes what the one file does."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import torchvision
from flax import nnx
from torch import nn
from torchvision.models.mobilenetv2 import MobileNetV2

import port
from port.translation import Translation
from port.translation.folder import write_folder

# The proof filters an nnx.State with a method that flax is about to take away.
pytestmark = pytest.mark.filterwarnings("ignore:`flax.nnx.State` will be deprecated:DeprecationWarning")


def computed(translation: Translation, x: torch.Tensor) -> np.ndarray:
    """The outputs in evaluation."""
    model = translation.build()
    model.eval()
    return np.asarray(model(*translation.to_flax(x)))


def same_as_one_file(made: Translation, x: torch.Tensor) -> bool:
    """Whether the package and the source in one file compute the same numbers; their code differs."""
    alone = replace(made, package=None)
    assert type(made.module).__module__ != type(alone.module).__module__
    return np.array_equal(computed(made, x), computed(alone, x))


@pytest.mark.sweep
def test_torchvision_s_models() -> None:
    """Classes in models/ that use one in ops/."""
    settings = [[1, 8, 1, 1], [2, 12, 1, 2]]
    torch.manual_seed(1)
    model = MobileNetV2(num_classes=5, inverted_residual_setting=settings, dropout=0.0)
    made = port.translate(model, torch.randn(2, 3, 32, 24), package=True, check=False)
    assert made.package is not None
    files = made.package.files
    names = ["__init__", "models/__init__", "models/mobilenetv2", "ops/__init__", "ops/misc"]
    assert list(files) == [f"{name}.py" for name in names]
    assert "from ..ops.misc import Conv2dNormActivation\n" in files["models/mobilenetv2.py"]
    assert "class Conv2dNormActivation" in files["ops/misc.py"]
    assert ".models.mobilenetv2" in type(made.module).__module__
    x = torch.randn(3, 3, 40, 24)
    assert same_as_one_file(made, x)
    np.testing.assert_allclose(computed(made, x), model.eval()(x).detach().numpy(), rtol=1e-4, atol=1e-5)


PROJECT = {
    "parts": """
import math

import torch
from torch import nn


class Base(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.lin = nn.Linear(dim, dim)
        angles = torch.arange(7.0)[:, None] * torch.exp(torch.arange(0, dim, 2) * -0.7)
        table = torch.zeros(7, dim)
        table[:, 0::2], table[:, 1::2] = torch.sin(angles), torch.cos(angles)
        self.register_buffer("table", table)

    def forward(self, x):
        return self.lin(x) + self.table[: x.shape[1]]


def wrapped(dim):
    from around_project.wholes import Wrapped

    return Wrapped(dim)


class Net(nn.Module):
    def __init__(self, other=None):
        super().__init__()
        self.wrapped = wrapped(6)
        self.other = other if other is not None else nn.Identity()

    def forward(self, x):
        return self.other(self.wrapped(x))
""",
    "wholes": """
import torch
from torch import nn

from around_project.parts import Base


class Wrapped(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.base = Base(dim)

    def forward(self, x):
        return torch.sin(self.base(x))
""",
}


@pytest.fixture(scope="module")
def around(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """A project whose files import each other."""
    folder = tmp_path_factory.mktemp("around")
    (folder / "around_project").mkdir()
    for name, text in {"__init__": "", **PROJECT}.items():
        (folder / "around_project" / f"{name}.py").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield importlib.import_module("around_project.parts")
    for name in [name for name in sys.modules if name.partition(".")[0] == "around_project"]:
        del sys.modules[name]


def test_files_that_need_each_other_and_a_table(around: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(2)
    options = {"name": "around", "check": False, "construct": around.Net}
    made = port.translate(around.Net(), torch.randn(2, 5, 6), package=True, **options)
    assert made.package is not None and made.tables
    assert list(made.package.files) == ["__init__.py", "parts.py"]
    (remark,) = made.package.remarks
    assert remark == "parts.py and wholes.py need each other, and imports go one way: parts.py has it all"
    x = torch.randn(3, 4, 6)
    assert same_as_one_file(made, x)
    write_folder(made, tmp_path / "around_jax", name="around")
    monkeypatch.syspath_prepend(str(tmp_path))
    written = importlib.import_module("around_jax")
    try:
        model = written.load()
        model.eval()
        np.testing.assert_array_equal(np.asarray(model(x.numpy())), computed(made, x))
        assert written.Net(rngs=nnx.Rngs(0)).wrapped.base.table[...].shape == (7, 6)
    finally:
        for name in ("around_jax", "around_jax.parts"):
            sys.modules.pop(name, None)


def test_what_a_notebook_defines(around: Any) -> None:
    """It is written beside the classes from files, with what it needs, and the package says so."""
    notebook = {"__name__": "notebook_cells", "nn": nn, "torch": torch}
    exec(
        "class Cell(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.lin = nn.Linear(6, 2)\n\n    def forward(self, x):\n        return torch.cos(self.lin(x))\n",
        notebook,
    )
    cell: Any = notebook["Cell"]
    made = port.translate(around.Net(cell()), torch.randn(2, 5, 6), package=True, check=False)
    assert made.package is not None and "class Cell(" in made.package.files["parts.py"]
    assert "notebook_cells.Cell is in no file: parts.py has it" in made.package.remarks
    alone = port.translate(cell(), torch.randn(3, 6), package=True, check=False, name="cell_jax")
    assert alone.package is not None and list(alone.package.files) == ["__init__.py", "cell_jax.py"]
    assert same_as_one_file(alone, torch.randn(4, 6))


def test_one_layer_of_torch_s() -> None:
    made = port.translate(nn.Linear(3, 2), torch.randn(4, 3), package=True, name="lin")
    assert made.proof is not None and made.proof.agrees and made.package is not None
    assert list(made.package.files) == ["__init__.py", "lin.py"] and made.package.remarks == ()


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["resnet18", "densenet121", "vit_b_16", "swin_t", "regnet_y_400mf", "convnext_tiny"])
def test_more_of_torchvision_s(name: str) -> None:
    """The statements of one file, distributed, with and without copies from port."""
    model = getattr(torchvision.models, name)(num_classes=7)
    x = torch.randn(1, 3, 224, 224)
    made = port.translate(model, x, package=True, check=False, static=True)
    assert made.package is not None and made.package.remarks == ()
    assert same_as_one_file(made, x)
    alone = port.translate(model, x, package=True, standalone=True, check=False, static=True)
    assert same_as_one_file(alone, x)
