"""The tour as a static site: lessons in two columns, the differences, old tutorials, the cheat sheet; with search."""

from port.report.site.reading import Reading, reading_of_files, reading_of_lesson
from port.report.site.writing import write_site

__all__ = ["Reading", "reading_of_files", "reading_of_lesson", "write_site"]
