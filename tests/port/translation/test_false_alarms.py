"""No right pair is called different, and each fault that is planted beside a zero, or into it, is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from .false_alarms import generator, planted, run
from .false_alarms.bases import BASES
from .false_alarms.generator import example
from .false_alarms.planted import FAULTS
from .false_alarms.word import word_of

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.filterwarnings("ignore")  # torch warns of some of these modules itself

SHORT = (22, 43)
"""Of the right pairs, some that compile in seconds, for the short run."""
LONG = [number for number in range(generator.COUNT) if number not in SHORT]


@pytest.mark.daily(8)
@pytest.mark.parametrize("number", [*SHORT, *LONG])
@pytest.mark.sweep
def test_a_right_pair_is_not_called_different(number: int) -> None:
    line = run.line_of(run.generated(number))
    assert line["word"] in ("agree", "cannot be judged"), line


@pytest.mark.daily(2)
@pytest.mark.thin(40)
@pytest.mark.parametrize("base", BASES)
def test_what_faults_are_planted_into_is_not_called_different(base: str) -> None:
    proof = planted.proof_of(base, planted.right(base)[2])
    assert word_of(proof) != "differ", str(proof)


@pytest.mark.daily(2)
@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.sweep
def test_a_planted_fault_is_called_different(name: str) -> None:
    fault = FAULTS[name]
    proof = planted.proof_of(fault.base, planted.planted(fault))
    assert not proof.failed, proof.failed
    assert word_of(proof) == "differ", str(proof)


@pytest.mark.sweep
@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")
def test_what_does_not_fit_into_memory_is_not_called_different() -> None:
    command = [sys.executable, "-m", "tests.port.translation.false_alarms.memory", "12", "6", "5"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    enough, *scarce = done.stdout.splitlines()
    assert enough.strip() == "12: agree"
    for line in scarce:
        assert line.partition(": ")[2].startswith(("agree", "cannot be judged")), line


def test_the_kept_table_has_no_right_pair_that_is_called_different() -> None:
    kept = run.table()
    names = {right.name for right in run.every([])}
    assert kept.keys() <= names
    assert {line["source"] for line in kept.values()} == set(run.SOURCES)
    assert len(kept) >= 300
    assert {line["word"] for line in kept.values()} <= {"agree", "cannot be judged", run.REFUSED}
    for line in kept.values():
        assert line["why"] or line["word"] == "agree", line


def test_the_lines_are_counted_by_source_and_word(tmp_path: Path) -> None:
    lines = [
        {"name": "a", "source": "zoo", "word": "agree"},
        {"name": "b", "source": "zoo", "word": "differ"},
        {"name": "c", "source": "modules", "word": "agree"},
        {"name": "d", "source": "zoo", "word": "agree"},
    ]
    assert run.counted(lines) == {"zoo": {"agree": 2, "differ": 1}, "modules": {"agree": 1}}
    file = tmp_path / "lines.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert list(run.written(file)) == ["a", "b", "c", "d"]


class Refused(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.sum() > 0 else -x


def test_a_pair_that_is_not_translated_has_a_word_too() -> None:
    refused = run.line_of(run.Right("refused", "none", lambda: (Refused(), torch.ones(3), {})))
    assert refused["word"] == run.REFUSED and refused["why"].count(" ") > 3

    def raises() -> Any:
        raise KeyError("no such module")

    raised = run.line_of(run.Right("raised", "none", raises))
    assert (raised["word"], raised["why"]) == (run.RAISED, "KeyError: 'no such module'")


def test_a_number_gives_the_same_module_every_time() -> None:
    for number in (0, 3, 9, 17):
        first, second = example(number), example(number)
        assert first.name == second.name
        weights, others = first.build().state_dict(), second.build().state_dict()
        assert all((weights[name] == others[name]).all() for name in weights)
        assert (first.inputs()[0][0] == second.inputs()[0][0]).all()


def test_each_zero_is_in_the_suite() -> None:
    names = {example(number).covers for number in range(generator.COUNT)}
    kinds = {one.name for one in (*generator.CONSUMERS, *generator.WHOLES, *generator.UNDIFFERENTIABLE)}
    assert names == kinds


def test_the_suite_has_no_pair_twice() -> None:
    names = [example(number).name.partition(" ")[2] for number in range(generator.COUNT)]
    assert len(set(names)) >= 200
