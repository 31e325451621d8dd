"""`port compare A B [--control C …]`: compares two records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.console import Console
from tyro.conf import Positional, UseAppendAction, arg

from port.cli.causes_of_run import with_causes_at_hand
from port.cli.parsing import parsed
from port.extras import require
from port.records import compare, read_record
from port.report import print_verdict
from port.report.results import printed, result_of_verdict
from port.training import Outcome


@dataclass(frozen=True)
class Arguments:
    """Compare two records, step by step. Exits 0 if they were shown to be the same, 1 if they differ, 2 on bad input, 4
    if it cannot be judged. If records of one or two runs of port train differ, it names the options and initial weights
    that differ, checks the models if they are available, and names what makes them differ.
    """

    a: Positional[Path]
    """a record: JSON lines, as written by port.Recorder"""
    b: Positional[Path]
    """the other record"""
    control: Annotated[UseAppendAction[tuple[tuple[Path, ...], ...]], arg(metavar="C [C …]")] = ()
    """controls of A: the same run, with its initial weights perturbed in their last places"""
    precision: Annotated[str | None, arg(metavar="{float64,float32,bfloat16,float16}")] = None
    """the precision to judge the records in, if they do not name it"""
    html: Annotated[Path | None, arg(metavar="PAGE")] = None
    """write a page with the curves of both, one file for any browser"""
    json: bool = False
    """print the result as JSON, for programs"""


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    options = parsed(Arguments, "compare", arguments)
    if options.html is not None:
        require("port compare --html", report=("jinja2", "plotly"))
        from port.report.page import check_page  # not above: it takes jinja2, of an extra

        check_page(options.html)
    a, b = read_record(options.a), read_record(options.b)
    controls = tuple(read_record(path) for paths in options.control for path in paths)
    verdict = compare(a, b, controls=controls, precision=options.precision)
    outcome = with_causes_at_hand(Outcome(verdict.precision, a, b, controls, verdict, weights=None))
    verdict = outcome.verdict
    if options.html is not None:  # before anything is printed: a page that cannot be written is bad usage
        from port.report.page import write_run_page

        write_run_page([outcome], options.html, title=f"{options.a} and {options.b}")
    if options.json:
        print(printed(result_of_verdict(verdict, outcome.causes, page=options.html)))
    else:
        print_verdict(verdict, Console())
    return verdict.status.exit_code
