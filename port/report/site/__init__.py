"""The static site: guides, reference, lessons side by side, differences, old tutorials and cheat sheet, one search."""

from port.extras import require

require("the site", report=("jinja2", "pygments", "markdown_it", "griffe"))

from port.report.site.reading import Reading, reading_of_files, reading_of_lesson  # noqa: E402
from port.report.site.writing import write_site  # noqa: E402

__all__ = ["Reading", "reading_of_files", "reading_of_lesson", "write_site"]
