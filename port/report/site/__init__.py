"""The static site: guides, reference, lessons side by side, differences, old tutorials and cheat sheet, one search."""

from port.extras import naming_extras

with naming_extras("the site"):
    from port.report.site.reading import Reading, reading_of_files, reading_of_lesson
    from port.report.site.writing import write_site

__all__ = ["Reading", "reading_of_files", "reading_of_lesson", "write_site"]
