"""Output for readers: verdict tables, plots, the run page, conversion tables and the notes.

The site is in `port.report.site`, which needs more packages.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from port.report.conversion import print_conversion
from port.report.notes import print_notes, print_outdated
from port.report.plot import plot_losses
from port.report.tables import print_outcomes, print_verdict

if TYPE_CHECKING:
    from port.report.page import open_page, write_page_of_folder, write_page_of_remains, write_run_page

# These need jinja2; the terminal output does not.
_PAGE_FUNCTIONS = ("open_page", "write_page_of_folder", "write_page_of_remains", "write_run_page")

__all__ = [
    "open_page",
    "plot_losses",
    "print_conversion",
    "print_notes",
    "print_outcomes",
    "print_outdated",
    "print_verdict",
    "write_page_of_folder",
    "write_page_of_remains",
    "write_run_page",
]


def __getattr__(name: str) -> Any:
    if name in _PAGE_FUNCTIONS:
        return getattr(import_module("port.report.page"), name)
    raise AttributeError(f"module 'port.report' has no attribute {name!r}")
