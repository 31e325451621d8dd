"""The page of a run: one self-contained HTML file that needs no network."""

from port.extras import require

require("the page of a run", report=("jinja2",))

from port.report.page.folder import write_page_of_folder, write_page_of_remains  # noqa: E402
from port.report.page.opening import open_page  # noqa: E402
from port.report.page.page import write_run_page  # noqa: E402
from port.report.page.replacing import check_page  # noqa: E402

__all__ = ["check_page", "open_page", "write_page_of_folder", "write_page_of_remains", "write_run_page"]
