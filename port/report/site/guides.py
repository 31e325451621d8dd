"""The guides: Markdown files and notebooks in ``port/guides``, in reading order."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files

from port.report.site.notebooks import markdown_of
from port.report.site.places import source_page
from port.report.site.prose import Section, sections

SOURCE = re.compile(r"\]\(\.\./([\w/]+\.py)(?:#[^)]*)?\)")
"""A link to one of our source files."""
ORDER = (
    "move_a_model",
    "move_a_checkpoint",
    "move_a_training_script",
    "prove_it",
    "they_differ",
    "large_models",
    "write_a_pair",
    "from_a_program",
    "how_the_translator_works",
    "how_it_judges",
    "glossary",
)
NOTEBOOKS = ("torchvision_model", "training_script")


@dataclass(frozen=True)
class GuidePage:
    """A guide.

    Attributes:
        name: the file's name without its suffix.
        text: Markdown that GitHub renders too.
    """

    name: str
    text: str

    @property
    def path(self) -> str:
        """The page's path from the site's folder."""
        return f"guides/{self.name}.html"

    @cached_property
    def sections(self) -> list[Section]:
        """The title, then the headings."""
        return sections(self.text)

    @property
    def title(self) -> str:
        """The first heading."""
        return self.sections[0].title

    @property
    def about(self) -> str:
        """The first paragraph, in Markdown."""
        return " ".join(self.text.strip().split("\n\n")[1].split())


def guides() -> list[GuidePage]:
    """Return all guides in reading order, then the notebooks."""
    folder = files("port") / "guides"
    written = [GuidePage(name, (folder / f"{name}.md").read_text("utf-8")) for name in ORDER]
    return written + [GuidePage(name, markdown_of((folder / f"{name}.ipynb").read_text("utf-8"))) for name in NOTEBOOKS]


def link_from_guide(address: str) -> str:
    """Return the site's address for an address in a guide's Markdown.

    Guides are pages, and so are sources that a guide links to. Other addresses are returned unchanged.
    """
    target, mark, anchor = address.partition("#")
    name, _, suffix = target.rpartition(".")
    if suffix in ("md", "ipynb") and "/" not in name:
        return f"{name}.html{mark}{anchor}"
    if target.startswith("../") and target.endswith(".py"):
        return f"../{source_page(target.removeprefix('../'))}{mark}{anchor}"
    return address


def sources_of(guide: GuidePage) -> list[str]:
    """Return the sources that a guide links to, as paths from ``port``."""
    return list(dict.fromkeys(SOURCE.findall(guide.text)))
