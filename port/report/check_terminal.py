"""Print a check in the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from port.judging import Status
from port.parity import CheckReport
from port.visible import visible

COLOURS = {Status.AGREE: "green", Status.DIFFER: "red", Status.CANNOT_JUDGE: "yellow"}


def print_check(report: CheckReport, console: Console) -> None:
    """Print the verdict in colour, then where the sides diverge, what differs, the causes and hints.

    Args:
        report: the report of `port.check`.
        console: where to print.
    """
    first, *rest = (escape(visible(line, console.encoding)) for line in str(report).splitlines())
    console.print(f"[bold {COLOURS[report.status]}]{first}[/]", soft_wrap=True)
    for line in rest:
        console.print(line, soft_wrap=True, highlight=False)
