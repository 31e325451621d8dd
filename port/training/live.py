"""The progress of running trainers: a table that redraws itself, or plain lines where nothing can be redrawn."""

from __future__ import annotations

import math
import os
import time
from dataclasses import replace
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from port.training.progress import Progress, State

STATE_STYLES: dict[State, str] = {
    "waiting": "dim",
    "running": "cyan",
    "done": "green",
    "failed": "bold red",
    "stopped": "yellow",
}
REDRAWS_PER_SECOND = 8
PLAIN_SECONDS = 5.0  # between two plain lines of one job


class LiveView:
    """A table that redraws itself, one row per job: ``with LiveView(console) as watch: …``.

    Jobs of an earlier call that are missing in a later one keep their rows.
    """

    def __init__(self, console: Console) -> None:
        self._rows: dict[str, Progress] = {}
        self._live = Live(console=console, refresh_per_second=REDRAWS_PER_SECOND)

    def __enter__(self) -> LiveView:
        self._live.start()
        return self

    def __call__(self, rows: list[Progress]) -> None:
        """Show these jobs from the next redraw on."""
        self._rows |= {row.job: row for row in rows}
        self._live.update(_table(list(self._rows.values())))

    def __exit__(
        self, error: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self(_none_running(list(self._rows.values())))
        self._live.stop()


class PlainView:
    """Plain lines, for a log or a pipe: when a job starts, every few seconds while it runs, and when it ends."""

    def __init__(self, console: Console, *, seconds: float = PLAIN_SECONDS) -> None:
        self._console = console
        self._seconds = seconds
        self._rows: list[Progress] = []
        self._printed: dict[str, Progress] = {}
        self._printed_at: dict[str, float] = {}

    def __enter__(self) -> PlainView:
        return self

    def __call__(self, rows: list[Progress]) -> None:
        """Print what has changed, if it is time to."""
        self._rows = rows
        widest = max((len(row.job) for row in rows), default=0)
        for row in rows:
            before = self._printed.setdefault(row.job, Progress(job=row.job))
            if row.state != before.state:
                # A job that started and ended between two polls is also reported as started.
                if before.state == "waiting":
                    self._print(replace(row, state="running"), widest, "started")
                if row.state != "running":
                    self._print(row, widest, row.state, *_figures(row))
            elif row.state == "running" and row.step != before.step and self._is_time(row.job):
                self._print(row, widest, *_figures(row))

    def __exit__(
        self, error: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self(_none_running(self._rows))

    def _is_time(self, job: str) -> bool:
        return time.monotonic() - self._printed_at[job] >= self._seconds

    def _print(self, row: Progress, widest: int, *words: str) -> None:
        line = "  ".join((row.job.ljust(widest), *words))
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)
        self._printed[row.job] = row
        self._printed_at[row.job] = time.monotonic()


def view(console: Console | None = None, plain: bool = False) -> LiveView | PlainView:
    """Choose the view for ``console``: the table on a terminal, lines in a pipe, a notebook or a CI job."""
    console = console or Console()
    in_ci = os.environ.get("CI", "").lower() not in ("", "0", "false")
    can_redraw = console.is_terminal and not console.is_dumb_terminal and not console.is_jupyter
    return LiveView(console) if can_redraw and not in_ci and not plain else PlainView(console)


def _none_running(rows: list[Progress]) -> list[Progress]:
    """The rows when the view closes: jobs that were still running have been ended."""
    return [replace(row, state="stopped") if row.state == "running" else row for row in rows]


def _table(rows: list[Progress]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), expand=True)
    table.add_column("", no_wrap=True, overflow="ellipsis")
    table.add_column("", no_wrap=True)
    table.add_column("", ratio=1)  # the bar takes the remaining width, possibly none
    for heading in ("step", "loss", "accuracy", "steps/s", "left"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        # Without a total the bar is empty.
        bar = ProgressBar(total=row.total_steps, completed=row.steps_done) if row.total_steps else ""
        table.add_row(
            Text(row.job),
            Text(row.state, style=STATE_STYLES[row.state]),
            bar,
            "" if row.step is None else _steps(row),
            "" if row.loss is None else _loss(row.loss),
            "" if row.accuracy is None else f"{row.accuracy:.2%}",
            "" if row.steps_per_second is None else _speed(row.steps_per_second),
            "" if row.seconds_left is None else _duration(row.seconds_left),
        )
    return table


def _figures(row: Progress) -> list[str]:
    """The known values of a job, as in a plain line."""
    words = [f"step {_steps(row)}"] if row.step is not None else []
    words += [f"loss {_loss(row.loss)}"] if row.loss is not None else []
    words += [f"accuracy {row.accuracy:.2%}"] if row.accuracy is not None else []
    words += [f"{_speed(row.steps_per_second)} steps/s"] if row.steps_per_second is not None else []
    words += [f"{_duration(row.seconds_left)} left"] if row.seconds_left is not None else []
    return words


def _steps(row: Progress) -> str:
    return f"{row.steps_done}/{row.total_steps}" if row.total_steps else str(row.steps_done)


def _loss(loss: float) -> str:
    """Format with six significant digits, keeping zeros, so that two sides' losses can be compared by eye."""
    return f"{loss:#.6g}"


def _speed(steps_per_second: float) -> str:
    return f"{steps_per_second:.0f}" if steps_per_second >= 100 else f"{steps_per_second:.3g}"


def _duration(seconds: float) -> str:
    minutes, left = divmod(math.ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}" if hours else f"{minutes}:{left:02d}"
