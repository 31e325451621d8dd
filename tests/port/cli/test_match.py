"""`port match`: what it prints and writes, its exit codes, what it takes first, what is refused in one message."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from port.cli import main
from port.report.results import schema

pytestmark = pytest.mark.filterwarnings("ignore:`flax.nnx.State` will be deprecated:DeprecationWarning")

MODELS = '''
import jax.numpy as jnp
import torch
from flax import linen, nnx
from torch import nn

from port import nn as port_nn


class Net(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.left, self.right = nn.Linear(4, width), nn.Linear(4, width)

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return self.left(x) + self.right(x)


class Twin(nnx.Module):
    """Its branches are called what torch's are; its layers are not."""

    def __init__(self, width=6, *, rngs):
        self.body = nnx.List([nnx.Linear(4, 4, rngs=rngs) for _ in range(3)])
        self.left_branch, self.right_branch = (nnx.Linear(4, width, rngs=rngs) for _ in range(2))

    def __call__(self, x):
        for layer in self.body:
            x = nnx.tanh(layer(x))
        return self.left_branch(x) + self.right_branch(x)


class Opaque(linen.Module):
    activation: str = "tanh"

    @linen.compact
    def __call__(self, x):
        for _ in range(3):
            x = getattr(linen, self.activation)(linen.Dense(4)(x))
        return linen.Dense(6)(x) + linen.Dense(6)(x)


class Normed(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(4, 5), nn.BatchNorm1d(5))


class FlaxsNormed(nnx.Module):
    """Flax's own norm keeps the biased variance (W8)."""

    def __init__(self, *, rngs):
        self.dense = nnx.Linear(4, 5, rngs=rngs)
        self.bn = nnx.BatchNorm(5, momentum=0.9, epsilon=1e-5, rngs=rngs)

    def __call__(self, x):
        return self.bn(self.dense(x))


class TorchsNormed(FlaxsNormed):
    def __init__(self, *, rngs):
        super().__init__(rngs=rngs)
        self.bn = port_nn.BatchNorm(5, rngs=rngs)


def batch():
    return torch.randn(3, 4)


def broken():
    raise RuntimeError("no luck")


def text():
    return "text"
'''
NAMES = ("match_models:Net", "match_models:Twin")
OPAQUE = ("match_models:Net", "match_models:Opaque")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "match_models.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("match_models", None)
    yield tmp_path
    sys.modules.pop("match_models", None)


def test_a_proved_mapping_is_written_and_converts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["match", *NAMES, "--input", "3,4", "-o", "mapping.toml"]) == 0
    said = capsys.readouterr().out
    assert "The mapping is proved in float64" in said and "mapping.toml" in said
    assert "layers.*.{weight, bias}" in said and "left_branch" in said
    written = (folder / "mapping.toml").read_text()
    assert r"'layers\.(\d+)\.weight'" in written and r"'body.\1.kernel'" in written and written.count("[[rule]]") == 6
    import match_models  # type: ignore[import-not-found]

    state = match_models.Net().state_dict()
    torch.save(state, "net.pth")
    command = ["convert", "net.pth", "-o", "net.safetensors", "--torch", NAMES[0], "--flax", NAMES[1]]
    assert main([*command, "--mapping", "mapping.toml"]) == 0
    made = {name.removeprefix("params."): array for name, array in load_file(folder / "net.safetensors").items()}
    for number in range(3):
        assert np.array_equal(made[f"body.{number}.kernel"], state[f"layers.{number}.weight"].numpy().T)
    assert np.array_equal(made["left_branch.kernel"], state["left.weight"].numpy().T)
    assert np.array_equal(made["right_branch.bias"], state["right.bias"].numpy())
    # Without the file the two models' names do not meet.
    assert main(["convert", "net.pth", "-o", "other.safetensors", *command[4:]]) == 2


@pytest.mark.sweep
def test_what_stays_open_is_listed_with_what_would_decide_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["match", *OPAQUE, "--inputs", "match_models:batch", "-o", "open.toml"]) == 4
    said = capsys.readouterr().out
    advice = r"--rename '^left\b=Dense_3'"
    assert advice in said and "could be right.weight, right.bias → Dense_3.bias, Dense_3.kernel" in said
    written = (folder / "open.toml").read_text()
    assert written.startswith("# open: ") and "Dense_3" not in written.replace("# ", "").partition("[[rule]]")[2]
    # What is advised decides it; what the file says already is taken too.
    assert main(["match", *OPAQUE, "--input", "3,4", "--mapping", "open.toml", "--rename", r"^left\b=Dense_3"]) == 0
    assert "your rule" in capsys.readouterr().out


@pytest.mark.sweep
def test_models_that_differ_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["match", *OPAQUE, "--input", "3,4", "--flax-kwargs", '{"activation": "relu"}']
    assert main([*given, "--rename", "^left=Dense_3"]) == 1
    assert "A mapping is proposed, and the two models differ with it" in capsys.readouterr().out


@pytest.mark.sweep
@pytest.mark.parametrize(("twin", "code"), [("FlaxsNormed", 1), ("TorchsNormed", 0)])
def test_a_proved_mapping_of_models_that_train_differently(
    twin: str, code: int, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("match_models:Normed", f"match_models:{twin}")
    assert main(["match", *names, "--input", "6,4", "-o", "mapping.toml"]) == code
    said = capsys.readouterr().out
    assert "The mapping is proved in float64" in said and (folder / "mapping.toml").is_file()
    differs = "But the models differ in training, in 1 buffer." in said
    assert differs == ("in training they differ: buffers, training: 1.running_var" in said) == (code == 1), said


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (NAMES, "pass the torch model's inputs"),
        ((*NAMES, "--input", "3,4", "--inputs", "match_models:batch"), "pass the torch model's inputs"),
        ((*NAMES, "--input", "3,x"), "an input is a shape"),
        ((*NAMES, "--input", "3,5"), "the torch model does not take the inputs"),
        ((*NAMES, "--inputs", "match_models:broken"), "--inputs: match_models:broken fails: RuntimeError: no luck"),
        (("match_models:nothing", NAMES[1], "--input", "3,4"), "unknown name in match_models 'nothing'"),
        (("match_models:text", NAMES[1], "--input", "3,4"), "TORCH: match_models:text returns str"),
        ((NAMES[0], "match_models:text", "--input", "3,4"), "FLAX: match_models:text returns str"),
        ((NAMES[1], NAMES[0], "--input", "3,4"), "TORCH: match_models:Twin"),
        ((*NAMES, "--input", "3,4", "--kwargs", '{"depth": 3}'), "TORCH: match_models:Net fails with"),
        ((*NAMES, "--input", "3,4", "--rename", "left"), "--rename takes PATTERN=NAME"),
        ((*NAMES, "--input", "3,4", "--rename", "(=x"), "is not a regular expression"),
        ((*NAMES, "--input", "3,4", "--mapping", "absent.toml"), "the mapping absent.toml cannot be read"),
        ((*NAMES, "--input", "3,4", "-o", "."), "is a folder"),
    ],
)
def test_what_cannot_be_is_one_message(given: Any, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["match", *given]) == 2
    said = capsys.readouterr()
    assert message in said.err and "Traceback" not in said.err and not said.out
    assert not list(Path().glob("*.toml"))


@pytest.mark.parametrize(
    ("names", "code", "word"), [(NAMES, 0, "agree"), (OPAQUE, 4, "cannot be judged")], ids=["proved", "open"]
)
def test_json(names: tuple[str, str], code: int, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["match", *names, "--input", "3,4", "-o", "mapping.toml", "--json"]) == code
    result = json.loads(capsys.readouterr().out)
    jsonschema.validate(result, schema())
    assert (result["status"], result["exit_code"], result["files"]) == (word, code, ["mapping.toml"])
    assert any(row["what"] == "open" for row in result["rows"]) == (code == 4)
    assert any("could be" in remark for remark in result["remarks"]) == (code == 4)
