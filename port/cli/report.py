"""`port report RUN …`: several runs beside one another."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.console import Console
from tyro.conf import Positional, arg

from port.cli.parsing import parsed
from port.errors import UsageError
from port.extras import require
from port.report.results import printed, result_of_runs
from port.report.runs.run_folder import read_run_folders


@dataclass(frozen=True)
class Arguments:
    """Compare several runs: their verdicts, their losses, and the options in which they differ.

    Exits 0 if both sides of every run are the same, 1 if those of one differ, 4 if one cannot be judged, 2 for a folder
    that holds no run.
    """

    runs: Annotated[Positional[tuple[Path, ...]], arg(metavar="RUN [RUN …]")] = ()
    """folders of runs, as port train leaves them; a folder that holds such folders stands for all of them"""
    out: Annotated[Path | None, arg(aliases=["-o"], metavar="PAGE.html")] = None
    """write a page with the curves of all, one file that any browser shows"""
    open: bool = False
    """show that page in a browser"""
    json: bool = False
    """print the result as JSON, for programs"""


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    options = parsed(Arguments, "report", arguments)
    if not options.runs:
        raise UsageError("name the runs: port report runs/ compares all in a folder")
    if options.open and options.out is None:
        raise UsageError("--open shows the page, and none is written: add -o report.html")
    require("port report", report=("jinja2", "plotly"))
    from port.report.runs.terminal import print_runs  # not above: it takes jinja2, of an extra

    if options.out is not None:
        from port.report.page import check_page

        check_page(options.out)
    runs = read_run_folders(options.runs)
    if options.out is not None:
        from port.report.page import open_page
        from port.report.runs.page import write_runs_page

        write_runs_page(runs, options.out)
        if options.open:
            open_page(options.out, Console(stderr=True))
    result = result_of_runs(runs, options.out)
    if options.json:
        print(printed(result))
    else:
        print_runs(runs, Console() if sys.stdout.isatty() else Console(width=10_000), page=options.out)
    return int(result["exit_code"])
