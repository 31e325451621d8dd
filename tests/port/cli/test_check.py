"""`port check`: what it prints, its exit codes, and what is refused in one message."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from port.cli import main
from port.report.results import schema

TORCH = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width=7):
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3, padding=1)
        self.norm = nn.GroupNorm(1, width)
        self.fc = nn.Linear(width, 5)

    def forward(self, x):
        return self.fc(nn.functional.gelu(self.norm(self.conv(x))).mean((2, 3)))


class Lost(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 5)

    def forward(self, x):
        return (self.fc(x).softmax(-1).sum(-1) - 1) * 1e16


def example():
    return torch.randn(2, 3, 8, 6, generator=torch.Generator().manual_seed(5))


def failing():
    raise RuntimeError("no data here")
"""
FLAX = """
import jax
from flax import linen, nnx


class Net(nnx.Module):
    def __init__(self, width=7, epsilon=1e-5, *, rngs):
        self.conv = nnx.Conv(3, width, (3, 3), padding=1, rngs=rngs)
        self.norm = nnx.GroupNorm(width, 1, epsilon=epsilon, use_fast_variance=False, rngs=rngs)
        self.fc = nnx.Linear(width, 5, rngs=rngs)

    def __call__(self, x):
        return self.fc(nnx.gelu(self.norm(self.conv(x)), approximate=False).mean((1, 2)))


class Linen(linen.Module):
    width: int = 7

    @linen.compact
    def __call__(self, x):
        x = linen.Conv(self.width, (3, 3), padding=1, name="conv")(x)
        x = linen.GroupNorm(1, epsilon=1e-5, use_fast_variance=False, name="norm")(x)
        return linen.Dense(5, name="fc")(linen.gelu(x, approximate=False).mean((1, 2)))


class Lost(nnx.Module):
    def __init__(self, rngs):
        self.fc = nnx.Linear(6, 5, rngs=rngs)

    def __call__(self, x):
        return (nnx.softmax(self.fc(x)).sum(-1) - 1) * 1e16
"""
INPUT = ("--input", "2,3,8,6")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "nets_torch.py").write_text(TORCH)
    (tmp_path / "nets_flax.py").write_text(FLAX)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def run(*arguments: str) -> int:
    return main(["check", *arguments])


@pytest.mark.thin(2)
@pytest.mark.parametrize("flax", ["Net", "Linen"])
def test_the_same_model_exits_with_0(flax: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("nets_torch:Net", f"nets_flax:{flax}", "--inputs", "nets_torch:example", "--kwargs", '{"width": 6}') == 0
    assert "The two models agree in float64" in capsys.readouterr().out


def test_another_epsilon_exits_with_1_and_names_the_layer(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("nets_torch:Net", "nets_flax:Net", *INPUT, "--flax-kwargs", '{"epsilon": 1e-3}') == 1
    said = capsys.readouterr().out
    assert "They part first at norm." in said and "epsilon is 1e-05 in torch and 0.001 in Flax" in said


@pytest.mark.sweep
def test_two_nnx_modules(capsys: pytest.CaptureFixture[str]) -> None:
    given = ("nets_flax:Net", "nets_flax:Net", "--input", "2,8,6,3")
    assert run(*given, "--kwargs", '{"width": 6}') == 0
    assert "The two models agree in float64" in capsys.readouterr().out
    assert run(*given, "--flax-kwargs", '{"epsilon": 1e-3}') == 1
    assert "They part first at norm." in capsys.readouterr().out


@pytest.mark.sweep
def test_what_is_all_rounding_exits_with_4(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("nets_torch:Lost", "nets_flax:Lost", "--input", "4,6") == 4
    assert "cannot be judged" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("nets_torch:Net", "nets_flax:Net", *INPUT), "agree"),
        (("nets_torch:Lost", "nets_flax:Lost", "--input", "4,6"), "cannot be judged"),
    ],
)
def test_json(arguments: tuple[str, ...], status: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(*arguments, "--json")
    result = json.loads(capsys.readouterr().out)
    jsonschema.validate(result, schema())
    assert (result["command"], result["status"], result["exit_code"]) == ("check", status, code)
    assert result["rows"] and (result["first_divergence"] is None)


def test_json_of_a_difference_names_where(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("nets_torch:Net", "nets_flax:Net", *INPUT, "--flax-kwargs", '{"epsilon": 1e-3}', "--json") == 1
    result = json.loads(capsys.readouterr().out)
    jsonschema.validate(result, schema())
    assert (result["first_divergence"]["layer"], result["first_divergence"]["direction"]) == ("norm", "forward")
    rows = {row["what"]: row for row in result["rows"]}
    assert rows["outputs in evaluation"]["status"] == "differ" and rows["outputs in evaluation"]["limit"] == 1e-10
    assert {row["status"] for row in result["rows"]} <= {"agree", "differ"}
    assert [(cause["kind"], cause["note"]) for cause in result["causes"]] == [("epsilon", "W10")]


@pytest.mark.sweep
def test_each_sides_own_weights(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import torch
    from nets_torch import Net  # type: ignore[import-not-found]

    torch.manual_seed(3)
    torch.save(Net().state_dict(), folder / "net.pt")
    for target in ("nets_flax:Net", "nets_flax:Linen"):
        out = f"{target[-3:]}.safetensors"
        given = ["--flax", target, "--torch", "nets_torch:Net", *(("--input", "2,8,6,3") if "Linen" in target else ())]
        assert main(["convert", "net.pt", *given, "-o", out]) == 0
        assert run("nets_torch:Net", target, *INPUT, "--torch-weights", "net.pt", "--flax-weights", out) == 0
        capsys.readouterr()
        assert run("nets_torch:Net", target, *INPUT, "--flax-weights", out) == 1
        assert "weights" in capsys.readouterr().out


BAD = {
    "no inputs": (("nets_torch:Net", "nets_flax:Net"), "pass the models' inputs"),
    "no module": (("nowhere:Net", "nets_flax:Net", *INPUT), "TORCH: nowhere cannot be imported"),
    "no name": (("nets_torch:Net", "nets_flax:Nat", *INPUT), "unknown name in nets_flax 'Nat'"),
    "the wrong way round": (("nets_flax:Net", "nets_torch:Net", *INPUT), "nets_flax:Net is a Flax module"),
    "PyTorch's twice": (("nets_torch:Net", "nets_torch:Net", *INPUT), "nets_torch:Net is a PyTorch module"),
    "a layout of two of Flax's": (
        ("nets_flax:Net", "nets_flax:Net", *INPUT, "--layout", "as-it-is"),
        "--layout is between",
    ),
    "two of Linen's": (("nets_flax:Linen", "nets_flax:Linen", *INPUT), "port check takes two nnx modules"),
    "no dtype": (("nets_flax:Net", "nets_flax:Net", "--input", "2,3:int65"), "an input is a shape"),
    "no shape": (("nets_torch:Net", "nets_flax:Net", "--input", "2,x"), "an input is a shape"),
    "other channels": (("nets_torch:Net", "nets_flax:Net", "--input", "2,4,8,6"), "does not take the inputs"),
    "failing inputs": (("nets_torch:Net", "nets_flax:Net", "--inputs", "nets_torch:failing"), "no data here"),
    "no file": (("nets_torch:Net", "nets_flax:Net", *INPUT, "--flax-weights", "no.safetensors"), "no.safetensors"),
    "another width": (("nets_torch:Net", "nets_flax:Net", *INPUT, "--flax-kwargs", '{"width": 3}'), "shape"),
    "a limit": (("nets_torch:Net", "nets_flax:Net", *INPUT, "--rtol", "-1"), "rtol is a finite number"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_exits_with_2_and_a_sentence(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, expected = BAD[what]
    assert run(*arguments, "--json") == 2
    printed = capsys.readouterr()
    assert expected in printed.err and "Traceback" not in printed.err
    result = json.loads(printed.out)
    jsonschema.validate(result, schema())
    assert (result["status"], result["exit_code"]) == (None, 2) and expected in result["sentence"]


def test_a_fault_of_ours_is_one_message(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("port.parity.checking.check", lambda *_, **__: 1 / 0)
    assert run("nets_torch:Net", "nets_flax:Net", *INPUT) == 2
    said = capsys.readouterr().err
    assert "because of a bug in port: ZeroDivisionError" in said and "Traceback" not in said
