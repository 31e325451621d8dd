"""What a trainer that `port script` has written costs beside `side_by_side`'s on the same model, and its loop over its
bare step.

Run with ``pytest -m benchmark -s -n 0 tests/benchmarks/test_script_speed.py``. `watched_script.py` is watched and
written; one process then takes turns between the written loop, its bare step and the other trainer's, in float32. The
aims: 1.05 times at most, both.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from port.scripts import Script
from port.scripts.writing_process import write_script

HERE = Path(__file__).parent
RATIOS = {"the loop over its bare step": ("loop", "step"), "the step over side_by_side's": ("step", "side_by_side")}
CLOCKS = ("by the clock", "computed by all threads")


@pytest.mark.benchmark
def test_a_written_trainer_beside_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prints only: a few hundredths are what a busy machine adds to either."""
    monkeypatch.setenv("PYTHONPATH", str(HERE.parents[1]))
    script = shutil.copy(HERE / "watched_script.py", tmp_path)
    written = write_script(Script(str(script)), tmp_path / "train_jax")
    assert not written.no_trainer and not written.reasons, written
    run = subprocess.run(
        [sys.executable, str(HERE / "script_times.py"), str(tmp_path / "train_jax")],
        env=os.environ | {"JAX_PLATFORMS": "cpu"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    seconds = json.loads(run.stdout.splitlines()[-1])
    print()
    for clock, name in enumerate(CLOCKS):
        least = {what: min(one[clock] for one in rounds) for what, rounds in seconds.items()}
        for what, (ours, others) in RATIOS.items():
            # A round of one lies beside a round of the other.
            pairs = zip(reversed(seconds[ours]), reversed(seconds[others]), strict=False)
            middle = statistics.median(one[clock] / other[clock] for one, other in pairs)
            print(
                f"{what:30} {name:24} {least[ours] * 1e3:7.2f} ms over {least[others] * 1e3:7.2f} ms: "
                f"{least[ours] / least[others]:5.3f} times; round by round {middle:5.3f}"
            )
