"""An account as data; also one of before scripts were watched in several processes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from port.scripts.observation import Observation
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
