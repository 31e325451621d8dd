"""Models of a user's own through both trainers: a torch class and the Flax file that `port.translate` writes of it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import port
from port.errors import UsageError
from port.records import Status, read_record
from port.translation.folder import write_folder
from side_by_side.config import Config

# The proof filters an nnx.State with a method that flax is about to take away.
pytestmark = pytest.mark.filterwarnings("ignore:`flax.nnx.State` will be deprecated:DeprecationWarning")

MODELS = '''
import torch
import torchvision
from torch import nn
from torch.nn import functional as F


class SE(nn.Module):
    """Squeeze and excite."""

    def __init__(self, channels):
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(channels, 2), nn.ReLU(), nn.Linear(2, channels), nn.Sigmoid())

    def forward(self, x):
        b, c, _, _ = x.size()
        return x * self.fc(x.mean((2, 3))).view(b, c, 1, 1)


class Net(nn.Module):
    """A small convnet, with a flatten of several channels, dropout, and a buffer that no state dict holds."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, (3, 5), stride=2, padding=(1, 2), bias=False)
        self.bn = nn.BatchNorm2d(4)
        self.se = SE(4)
        self.register_buffer("scale", torch.tensor([1.0, 0.5, 2.0, 1.5]).view(1, 4, 1, 1), persistent=False)
        self.hidden = nn.Linear(64, 16)
        self.drop = nn.Dropout(0.25)
        self.rate = 0.2
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        x = self.se(torch.relu(self.bn(self.conv(x)))) * self.scale
        x = F.dropout(F.dropout(x, self.rate, self.training).flatten(1), self.rate, self.training)  # in two layouts
        x = self.drop(torch.relu(self.hidden(x)))
        return self.head(x)


class Pictures(Net):
    """Takes something else than the digits are."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)


class Config:
    def __init__(self, width):
        self.width = width


class Configured(Net):
    def __init__(self, config):
        super().__init__()
        self.hidden, self.head = nn.Linear(64, config.width), nn.Linear(config.width, 10)


class Two(Net):
    def forward(self, x):
        return super().forward(x), x


def resnet18():
    net = torchvision.models.resnet18(num_classes=10)
    net.conv1 = nn.Conv2d(1, 64, 3, 2, 1, bias=False)  # for images of 8 x 8
    net.maxpool = nn.Identity()
    return net
'''
DIGITS = Config(dataset="digits", batch_size=32, lr=0.05, precision="float64")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with models in torch, and what was written of the small one."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "own_models.py").write_text(MODELS)
    write(folder, "Net", "net")
    return folder


def write(folder: Path, target: str, name: str) -> None:
    models: Any = port_models(folder)
    torch.manual_seed(1)
    done = port.translate(getattr(models, target)(), torch.randn(2, 1, 8, 8), name=name, check=False)
    write_folder(done, folder / name, name=name)


def port_models(folder: Path) -> Any:
    from side_by_side.own import found

    return sys.modules[found(f"{folder / 'own_models.py'}:SE", "--torch-model").__module__]


def own(project: Path, target: str = "Net", name: str = "net", cls: str = "Net", **options: Any) -> dict[str, Any]:
    jax_model = f"{project / name / name}.py:{cls}"
    return {"torch_model": f"{project / 'own_models.py'}:{target}", "jax_model": jax_model, **options}


def with_options(**options: Any) -> Config:
    from dataclasses import replace

    return replace(DIGITS, **options)


@pytest.mark.sweep
def test_the_small_convnet(project: Path, train_both: Callable[..., Any]) -> None:
    outcome = train_both(with_options(**own(project, steps=12)))
    assert outcome.verdict.status is Status.AGREE, str(outcome.verdict)
    assert outcome.weights is not None and outcome.weights.difference < 1e-12
    assert len(outcome.jax.steps) == 12 and outcome.jax.steps[0].loss != outcome.jax.steps[11].loss


@pytest.mark.sweep
def test_a_swapped_operator_is_caught(project: Path, train_both: Callable[..., Any]) -> None:
    source = project / "net" / "net.py"
    text = source.read_text()
    assert text.count("nnx.sigmoid") == 1
    swapped = text.replace("nnx.sigmoid", "nnx.hard_sigmoid")
    try:
        outcome = train_both(with_options(**own(project, steps=4)), fault=lambda _: source.write_text(swapped))
    finally:
        source.write_text(text)
    assert outcome.verdict.status is Status.DIFFER
    assert outcome.verdict.findings[0].step == 0


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("target", "name", "cls", "lr"),
    # At a rate of 0.05 the ResNet is chaos in torch itself: its loss climbs to 8, and two runs of PyTorch alone that
    # begin one last place apart differ by 3e-9 after 31 steps. At 0.002 they differ by 4e-14 after 100.
    [("Net", "net", "Net", 0.05), ("resnet18", "resnet18", "ResNet", 0.002)],
)
def test_two_hundred_steps(
    target: str, name: str, cls: str, lr: float, project: Path, train_both: Callable[..., Any]
) -> None:
    if not (project / name).exists():
        write(project, target, name)
    outcome = train_both(with_options(**own(project, target, name, cls, steps=200, batch_size=16, lr=lr)))
    assert outcome.verdict.status is Status.AGREE, str(outcome.verdict)
    losses = [(outcome.torch.steps[step].loss, outcome.jax.steps[step].loss) for step in range(200)]
    assert max(abs(a - b) / abs(a) for a, b in losses) <= 1e-9


@pytest.mark.sweep
def test_the_command(project: Path) -> None:
    models = ["--torch-model", "own_models:Net", "--jax-model", "net/net.py:Net"]
    options = ["--dataset", "digits", "--steps", "20", "--precision", "float64", "--out", "run", "--plain"]
    command = [sys.executable, "-m", "port", "train", *models, *options]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((project / "run" / "verdict.json").read_text())["float64"]["status"] == "agree"
    assert len(read_record(project / "run" / "float64" / "jax.jsonl").steps) == 20
    state = port.weights.read_arrays(project / "run" / "float64" / "jax.safetensors")
    assert state["conv.weight"].shape == (4, 1, 3, 5), "torch's names and layouts"


@pytest.mark.sweep
def test_a_model_that_takes_a_configuration(project: Path) -> None:
    from side_by_side.pytorch.own import build_own as build_torch

    kwargs = json.dumps({"config": {f"@{project / 'own_models.py'}:Config": {"width": 7}}})
    model: Any = build_torch(with_options(**own(project, "Configured", torch_kwargs=kwargs)))
    assert model.hidden.out_features == 7
    with pytest.raises(UsageError, match=r"cannot be built without arguments: .*'config'\n.*--torch-kwargs '"):
        build_torch(with_options(**own(project, "Configured")))


REFUSED = {
    "arguments of none": ({"torch_kwargs": "{}", "torch_model": None, "jax_model": None}, "pass those"),
    "one alone": ({"torch_model": "a:B"}, "belong together"),
    "another model": ({"model": "convnet"}, "--model is for built-in models"),
    "dropout": ({"dropout": 0.1}, "--dropout is for built-in models"),
    "synchronised": ({"devices": 2, "batch_norm": "synchronised"}, "--batch-norm synchronised is for built-in models"),
    "weighted": ({"uneven": "weight", "drop_last": False}, "choose --uneven pad"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_options_that_do_not_go_together(case: str) -> None:
    options, message = REFUSED[case]
    both = {} if case == "one alone" else {"torch_model": "a:B", "jax_model": "c.py:D"}
    with pytest.raises(UsageError, match=message):
        Config(**both | options)  # type: ignore[arg-type]


@pytest.mark.sweep
def test_models_that_do_not_go_with_the_data(project: Path) -> None:
    from side_by_side.jax.own import build_own as build_jax
    from side_by_side.pytorch.own import build_own as build_torch

    def config(target: str, **options: Any) -> Config:
        return with_options(**own(project, target, **options))

    with pytest.raises(UsageError, match=r"Pictures does not take the images of digits, \(2, 1, 8, 8\): RuntimeError"):
        build_torch(config("Pictures"))
    with pytest.raises(UsageError, match="returns tuple for two images"):
        build_torch(config("Two"))
    with pytest.raises(UsageError, match=r"unknown name in .* 'Nett'; there are: Net"):
        build_torch(config("Nett"))
    with pytest.raises(UsageError, match="cannot be built without arguments"):
        build_torch(config("SE"))
    with pytest.raises(
        UsageError, match=r"--parallel fsdp: bn of .*:Net has batch statistics, each rank's own in torch"
    ):
        build_torch(config("Net", devices=2, parallel="fsdp"))
    assert build_torch(config("Net", devices=2, parallel="pmap")) and build_torch(config("Net", parallel="fsdp"))
    with pytest.raises(UsageError, match=r"--jax-model: there is no file .*gone\.py"):
        build_jax(config("Net", name="gone"))
    with pytest.raises(UsageError, match=r"is not a flax\.nnx\.Module class"):
        build_jax(config("Net", cls="load"))
    with pytest.raises(UsageError, match="nowhere cannot be imported"):
        build_torch(Config(torch_model="nowhere:Net", jax_model="a.py:B"))
    with pytest.raises(UsageError, match="takes module:name or"):
        build_torch(Config(torch_model="Net", jax_model="a.py:B"))


@pytest.mark.sweep
def test_the_command_tells_why_two_models_differ(project: Path) -> None:
    source = project / "net" / "net.py"
    text = source.read_text()
    assert text.count("nnx.sigmoid") == 1
    source.write_text(text.replace("nnx.sigmoid", "nnx.hard_sigmoid"))
    models = ["--torch-model", "own_models:Net", "--jax-model", "net/net.py:Net"]
    options = ["--dataset", "digits", "--steps", "4", "--precision", "float64", "--out", "other", "--plain", "--json"]
    command = [sys.executable, "-m", "port", "train", *models, *options]
    try:
        done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=300)
        records = [f"other/float64/{side}.jsonl" for side in ("torch", "jax")]
        command = [sys.executable, "-m", "port", "compare", *records, "--json"]
        compared = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=300)
    finally:
        source.write_text(text)
    assert done.returncode == 1, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert compared.returncode == 1, compared.stdout + compared.stderr
    assert result["causes"] and json.loads(compared.stdout)["causes"] == result["causes"]
    assert result["first_divergence"]["step"] == 0
    told = json.loads((project / "other" / "verdict.json").read_text())["float64"]
    assert told["hints"][0] in result["remarks"] and told["causes"] == result["causes"]
    assert "alone differ" in told["hints"][0] or "models differ in float64" in told["hints"][0], told["hints"]
