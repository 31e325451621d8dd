"""What a person sees while trainers run."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from port.training import live
from port.training.live import LiveView, PlainView, view
from port.training.progress import Progress

RUNNING = Progress(
    "torch float64",
    "running",
    step=119,
    total_steps=500,
    loss=0.312123456,
    accuracy=0.97222,
    steps_per_second=431.4,
)
WAITING = Progress("jax float64")


def test_the_formats_keep_their_width() -> None:
    assert [live._loss(x) for x in (2.3, 0.312123456, 1.23456789e-5, float("nan"), float("-inf"))] == [
        "2.30000",
        "0.312123",
        "1.23457e-05",
        "nan",
        "-inf",
    ]
    assert [live._speed(x) for x in (12345.6, 431.4, 99.96, 0.01234)] == ["12346", "431", "100", "0.0123"]
    assert [live._duration(x) for x in (0, 1.2, 59.9, 3599, 3600, 90061)] == [
        "0:00",
        "0:02",
        "1:00",
        "59:59",
        "1h00",
        "25h01",
    ]


class TestPlainView:
    def shown(self, *calls: list[Progress], seconds: float = 0.0, width: int = 80) -> list[str]:
        file = io.StringIO()
        with PlainView(Console(file=file, width=width), seconds=seconds) as watch:
            for rows in calls:
                watch(rows)
        return file.getvalue().splitlines()

    def test_a_job_from_its_start_to_its_end(self) -> None:
        later = Progress("jax float64", "running", step=2, loss=2.0)
        done = Progress("torch float64", "done", step=499, total_steps=500, loss=0.1, accuracy=1.0)
        assert self.shown(
            [WAITING, Progress("torch float64")],
            [WAITING, Progress("torch float64", "running")],
            [WAITING, RUNNING],
            [later, done],
            [Progress("jax float64", "failed", step=3, loss=float("nan")), done],
        ) == [
            "torch float64  started",
            "torch float64  step 120/500  loss 0.312123  accuracy 97.22%  431 steps/s  0:01 left",
            "jax float64    started",
            "torch float64  done  step 500/500  loss 0.100000  accuracy 100.00%",
            "jax float64    failed  step 4  loss nan",
        ]

    def test_a_job_that_ends_between_two_polls_is_told_both_ways(self) -> None:
        assert self.shown([WAITING], [Progress("jax float64", "done", step=0)]) == [
            "jax float64  started",
            "jax float64  done  step 1",
        ]

    def test_a_running_job_is_told_only_every_few_seconds(self, monkeypatch: pytest.MonkeyPatch) -> None:
        now = [0.0]
        monkeypatch.setattr(live.time, "monotonic", lambda: now[0])
        file = io.StringIO()
        watch = PlainView(Console(file=file), seconds=5.0)
        for tick in range(121):  # twelve seconds
            now[0] = tick / 10
            watch([Progress("a", "running", step=tick)])
        assert file.getvalue().splitlines() == ["a  started", "a  step 51", "a  step 101"]

    def test_a_job_that_makes_no_step_is_not_repeated(self) -> None:
        row = Progress("a", "running", step=3)
        assert self.shown([row], [row], [row], [Progress("a", "done", step=3)]) == [
            "a  started",
            "a  done  step 4",
        ]

    def test_a_job_that_was_ended_is_said_to_have_been_stopped(self) -> None:
        assert self.shown([RUNNING, WAITING])[1:] == [
            "torch float64  stopped  step 120/500  loss 0.312123  accuracy 97.22%  431 steps/s"
        ]

    def test_names_are_no_markup_and_lines_are_not_broken(self) -> None:
        assert self.shown([Progress("[red]a" + "b" * 90, "running")], width=20)[0] == (
            "[red]a" + "b" * 90 + "  started"
        )


class TestLiveView:
    def shown(self, *rows: Progress, width: int = 80) -> list[str]:
        """The last table drawn, without its colours."""
        console = Console(file=io.StringIO(), force_terminal=True, width=width, height=24, record=True)
        with LiveView(console) as watch:
            watch([Progress(row.job) for row in rows])
            watch(list(rows))
        return [text.rstrip() for text in console.export_text().splitlines()[-len(rows) - 1 :]]

    def test_one_row_a_job_in_eighty_columns(self) -> None:
        done = Progress("jax float64", "done", step=499, total_steps=500, loss=0.312123457, accuracy=0.975)
        heading, first, second, third = self.shown(
            done, Progress("torch float32", "failed", step=3), Progress("jax float32")
        )
        assert heading.split() == ["step", "loss", "accuracy", "steps/s", "left"]
        assert first.split()[:3] == ["jax", "float64", "done"]
        assert set(first.split()[3]) == {"━"}, "the bar"
        assert first.split()[4:] == ["500/500", "0.312123", "97.50%"]
        assert second.split() == ["torch", "float32", "failed", "4"]
        assert third.split() == ["jax", "float32", "waiting"]

    def test_speed_and_time_left_while_it_runs(self) -> None:
        console = Console(file=io.StringIO(), force_terminal=True, width=80)
        console.print(live._table([RUNNING]))
        last = console.file.getvalue().splitlines()[-1]  # type: ignore[attr-defined]
        assert last.split()[-5:] == ["120/500", "0.312123", "97.22%", "431", "0:01"]

    def test_the_largest_figures_still_fit(self) -> None:
        wide = Progress("torch float32 control", "running", 123456, 1000000, 1.2345678e-5, 1.0, 0.01234)
        row = self.shown(wide, WAITING)[1]
        assert len(row) <= 80
        assert "…" not in row
        assert "123457/1000000" in row
        assert "1.23457e-05" in row

    def test_jobs_of_an_earlier_call_keep_their_rows(self) -> None:
        console = Console(file=io.StringIO(), force_terminal=True, width=80, record=True)
        with LiveView(console) as watch:
            watch([Progress("torch float32", "done", step=4)])
            watch([Progress("control-1 float32", "done", step=5)])
        first, second = console.export_text().splitlines()[-2:]
        assert first.split() == ["torch", "float32", "done", "5"]
        assert second.split() == ["control-1", "float32", "done", "6"]

    def test_it_redraws_in_place_and_gives_the_cursor_back(self) -> None:
        file = io.StringIO()
        with LiveView(Console(file=file, force_terminal=True, width=80)) as watch:
            watch([RUNNING])
        assert "\x1b[?25l" in file.getvalue(), "hidden while it draws"
        assert file.getvalue().rindex("\x1b[?25h") > file.getvalue().rindex("\x1b[?25l")

    def test_a_job_that_was_ended_is_shown_as_stopped(self) -> None:
        _, first, second = self.shown(RUNNING, WAITING)
        assert first.split()[:3] == ["torch", "float64", "stopped"]
        assert second.split() == ["jax", "float64", "waiting"]


class TestView:
    @pytest.fixture(autouse=True)
    def no_ci(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("CI", raising=False)
        monkeypatch.setenv("TERM", "xterm-256color")

    def terminal(self, **how: Any) -> Console:
        return Console(file=io.StringIO(), force_terminal=True, **how)

    def test_a_terminal_gets_the_table(self) -> None:
        assert isinstance(view(self.terminal()), LiveView)

    def test_a_pipe_gets_lines(self) -> None:
        assert isinstance(view(Console(file=io.StringIO(), force_terminal=False)), PlainView)

    def test_a_dumb_terminal_gets_lines(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TERM", "dumb")
        assert isinstance(view(self.terminal()), PlainView)

    def test_a_notebook_gets_lines(self) -> None:
        assert isinstance(view(self.terminal(force_jupyter=True)), PlainView)

    @pytest.mark.parametrize(("value", "kind"), [("true", PlainView), ("1", PlainView), ("false", LiveView)])
    def test_ci_gets_lines(self, monkeypatch: pytest.MonkeyPatch, value: str, kind: type) -> None:
        monkeypatch.setenv("CI", value)
        assert isinstance(view(self.terminal()), kind)

    def test_lines_for_whoever_asks(self) -> None:
        assert isinstance(view(self.terminal(), plain=True), PlainView)

    def test_without_a_console_it_looks_at_standard_output(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sys.stdout", io.StringIO())
        assert isinstance(view(), PlainView)
