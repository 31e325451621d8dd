"""The table and the plot of a run's outcomes."""

from __future__ import annotations

import math
from io import BytesIO, StringIO, TextIOWrapper

import pytest
from rich.console import Console

from port.records import Recorder
from port.report import plot_losses, print_outcomes
from port.training import judge


@pytest.fixture
def outcomes(tmp_path):
    """A proof that agrees, and a float32 run whose JAX side goes wrong at step 12 and is NaN at the end."""

    def outcome(precision: str, wrong: bool):
        paths = {}
        for side in ("torch", "jax", "c1", "c2"):
            paths[side] = tmp_path / f"{precision}-{side}.jsonl"
            device = "cpu" if side == "torch" else "nvidia h200"
            with Recorder(paths[side], side=side, precision=precision, device=device) as record:
                for step in range(20):
                    loss = 2.0 / (1 + step)
                    if side == "jax" and wrong and step >= 12:
                        loss *= 1.5 if step < 19 else math.nan
                    record(step, loss=loss * (1 + 1e-7 * (side == "c1")))
                    if step % 10 == 9:
                        record.evaluation(step, loss=1.0, accuracy=0.75, duration=0.0)
        controls = [paths["c1"], paths["c2"]] if precision == "float32" else []
        return judge(precision, paths["torch"], paths["jax"], controls)

    return [outcome("float64", False), outcome("float32", True)]


def test_the_table_says_what_there_is_to_know(outcomes):
    text = StringIO()
    print_outcomes(outcomes, Console(file=text, width=110))
    said = text.getvalue()
    for words in ("torch and jax are the same over 20 steps", "losses part at step 12", "0.7500 / 0.7500", "steps/s"):
        assert words in said
    assert "unequal device: torch cpu, jax nvidia h200" in said
    assert "not finite at step 19" in said


def test_names_with_brackets_are_no_markup(outcomes):
    from dataclasses import replace

    odd = replace(outcomes[0], torch=replace(outcomes[0].torch, about={"device": "[red]gpu"}))
    text = StringIO()
    print_outcomes([odd], Console(file=text, width=110))
    assert "[red]gpu" in text.getvalue()


def test_what_a_record_says_is_no_command_for_the_terminal(outcomes):
    from dataclasses import replace

    from port.report import print_verdict

    sentence = "\x1b[31mtorch\u202e and é\nare the same"
    odd = replace(outcomes[0].verdict, sentence=sentence, hints=["\x1b]0;title\x07"])
    raw = BytesIO()
    stream = TextIOWrapper(raw, encoding="ascii")
    print_verdict(odd, Console(file=stream, width=110))
    stream.flush()
    said = raw.getvalue().decode("ascii")
    assert "\x1b" not in said
    assert "\x07" not in said
    assert r"\x1b[31mtorch\u202e and \xe9" in said
    assert "\nare the same" in said


@pytest.mark.sweep
def test_the_plot_is_drawn_whole(outcomes, tmp_path):
    plot_losses(outcomes, tmp_path / "losses.png")
    assert (tmp_path / "losses.png").read_bytes().startswith(b"\x89PNG")
    assert not list(tmp_path.glob(".*part*"))
