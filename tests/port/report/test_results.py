"""What ``--json`` prints of each command, against the schema that lies in the package."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import torch
from torch import nn

from port import Recorder
from port.cli import main
from port.report.results import result_of_error, schema


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).tanh()


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "a_net.py").write_text(
        "from torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.linear = nn.Linear(3, 2)\n\n    def forward(self, x):\n        return self.linear(x).tanh()\n"
    )
    torch.save(Net().state_dict(), "net.pt")
    return "a_net:Net"


def result(*arguments: str, code: int, capsys: pytest.CaptureFixture[str]) -> dict:
    capsys.readouterr()
    assert main([*arguments, "--json"]) == code
    found = json.loads(capsys.readouterr().out)
    jsonschema.validate(found, schema())
    assert (found["command"], found["exit_code"]) == (arguments[0], code)
    return found


def test_the_schema_is_one_and_refuses_what_it_does_not_know() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    right = result_of_error("check", "no such file", 2)
    jsonschema.validate(right, schema())
    for wrong in ({**right, "more": 1}, {**right, "exit_code": 7}, {**right, "status": "undecided"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema())


@pytest.mark.sweep
def test_a_translation_and_a_conversion(net: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = result("translate", net, "--input", "4,3", "-o", "out", code=0, capsys=capsys)
    assert found["status"] == "agree" and {row["status"] for row in found["rows"]} == {"agree"}
    assert all(Path(file).is_file() for file in found["files"]) and len(found["files"]) >= 4
    found = result("convert", "net.pt", "--torch", net, "-o", "net.safetensors", code=0, capsys=capsys)
    assert found["status"] is None and found["files"] == ["net.safetensors"]
    assert "linear.weight → linear.kernel" in {row["where"] for row in found["rows"]}
    found = result("convert", "no.pt", "--torch", net, "-o", "no.safetensors", code=2, capsys=capsys)
    assert "no.pt" in found["sentence"]


@pytest.mark.parametrize(
    ("precision", "factor", "code", "word"),
    [
        ("float64", 1.0, 0, "agree"),
        ("float64", 1 + 1e-6, 1, "differ"),
        ("float64", float("nan"), 1, "differ"),
        ("float32", 1 + 1e-6, 4, "cannot be judged"),
    ],
)
def test_two_records(
    precision: str, factor: float, code: int, word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, at in (("a", 1.0), ("b", factor)):
        with Recorder(tmp_path / f"{name}.jsonl", precision=precision) as record:
            for step in range(12):
                record(step, loss=2.0 / (step + 1) * (at if step == 7 else 1.0))
    found = result("compare", str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl"), code=code, capsys=capsys)
    assert found["status"] == word
    assert (found["first_divergence"] or {}).get("step") == (7 if word == "differ" else None)
    assert [(row["what"], row["status"]) for row in found["rows"]] == [("training loss", word)]
