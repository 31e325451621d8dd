"""The page of a run: one self-contained HTML file that needs no network."""

from port.extras import naming_extras

with naming_extras("the page of a run"):
    from port.report.page.folder import write_page_of_folder, write_page_of_remains
    from port.report.page.opening import open_page
    from port.report.page.page import write_run_page
    from port.report.page.replacing import check_page

__all__ = ["check_page", "open_page", "write_page_of_folder", "write_page_of_remains", "write_run_page"]
