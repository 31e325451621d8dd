"""An account as data; also one of before scripts were watched in several processes."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from rich.console import Console

from port.scripts.observation import Observation, schema
from port.scripts.terminal import print_observation


@pytest.mark.parametrize("launcher", [None, ["-m", "torch.distributed.run"]])
def test_the_script_is_found_behind_its_launcher(launcher: list[str] | None, tmp_path: Path) -> None:
    begun: dict[str, Any] = {} if launcher is None else {"launcher": launcher}
    command = [*(launcher or ()), "train.py", "--epochs", "3"]
    where = {"file": str(tmp_path / "train.py"), "line": 3, "function": "<module>", "text": "torch.manual_seed(1)"}
    script = {"command": command, "folder": str(tmp_path), "is_module": False, **begun}
    seed = {"event": "seed", "where": where, "function": "torch.manual_seed", "seed": 1}
    observation = Observation(script, seeds=[seed])
    assert observation.launcher == tuple(launcher or ())
    printed = io.StringIO()
    print_observation(observation, Console(file=printed, width=120))
    (row,) = [row for row in printed.getvalue().splitlines() if "manual_seed" in row]
    assert row.split()[0] == "3"  # of the script itself the line alone


def account() -> dict[str, Any]:
    line = {"file": "train.py", "line": 3, "function": "<module>", "text": "torch.manual_seed(1)"}
    common = {"iteration": 0, "seconds": 0.5, "calls": 0, "where": line}
    how = {"command": ["train.py"], "folder": ".", "is_module": False, "python": "3.12", "torch": "2", "left_out": []}
    cleared = {"event": "zero_grad", **common, "of": "optimizer", "by_hand": False}
    backward = {"event": "backward", **common, "loss": "NaN", "tensor": None, "path": [], "reaches": True}
    rate = {"kind": "option", "optimizer": "optimizer", "group": 0, "option": "lr", "set_at": [], "where": line}
    return Observation(
        {**how, "ended": "seen", "seconds": 1.5},
        seeds=[{"event": "seed", **common, "function": "torch.manual_seed", "seed": 1}],
        steps=[[cleared, backward]],
        differences=[{**rate, "values": [0.1, 0.2]}],
    ).as_data()


def test_the_schema_has_every_field_and_every_kind_of_event() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    names = {"version", *(field.name for field in fields(Observation))}
    assert set(schema()["properties"]) == set(schema()["required"]) == names
    sources = Path(__file__).parents[3] / "port" / "scripts" / "observing"
    kinds = {kind for file in sources.glob("*.py") for kind in re.findall(r'\.tell\(\s*"([^"]+)"', file.read_text())}
    known = set(schema()["$defs"]["event"]["properties"]["event"]["enum"])
    assert len(kinds) > 20 and kinds <= known, f"not in the schema: {kinds - known}"
    assert all(field.get("description") for field in schema()["properties"].values())


FAULTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a field more": lambda data: data.update(more=1),
    "a field less": lambda data: data.pop("seeds"),
    "another version": lambda data: data.update(version=2),
    "an event of no kind": lambda data: data["seeds"][0].update(event="seeds"),
    "an event without its line": lambda data: data["seeds"][0].pop("where"),
    "an event without a field of its kind": lambda data: data["steps"][0][1].pop("path"),
    "a difference of another kind": lambda data: data["differences"][0].update(kind="shape"),
    "a loss that is no number": lambda data: data["steps"][0][1].update(loss="much"),
}


@pytest.mark.parametrize("name", [None, *FAULTS])
def test_the_schema_takes_an_account_and_sees_faults(name: str | None) -> None:
    data = account()
    if name is None:
        jsonschema.validate(data, schema())
        return
    FAULTS[name](data)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, schema())
