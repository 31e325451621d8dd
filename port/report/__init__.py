"""What a person looks at: the verdict's table, the plot and the page of a run, a conversion's mapping, the notes.

The site is `port.report.site`, which takes more packages.
"""

from port.report.conversion import print_conversion
from port.report.notes import print_notes, print_outdated
from port.report.page import open_page, write_page_of_folder, write_page_of_remains, write_run_page
from port.report.plot import plot_losses
from port.report.tables import print_outcomes, print_verdict

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
