"""Markdown as HTML: guides and docstrings, with highlighted code and links to the site's pages."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape

from port.report.site.markup import highlighted, html_of, linked

TITLE = re.compile(r'\btitle="([^"]*)"')


@dataclass(frozen=True)
class Section:
    """A heading of a text.

    Attributes:
        level: the heading's level; 1 is the text's title.
        title: the words of the heading, without markup.
        anchor: its id on the page.
        text: the prose below it, up to the next heading, without markup and without code blocks.
    """

    level: int
    title: str
    anchor: str
    text: str


def sections(text: str) -> list[Section]:
    """Return the headings of a Markdown text, in order, with the prose below each."""
    found: list[Section] = []
    tokens = _parser().parse(text)
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            title = plain(tokens[place + 1])
            found.append(Section(int(token.tag[1:]), title, slug(title), ""))
        elif token.type == "inline" and found and tokens[place - 1].type != "heading_open":
            last = found.pop()
            found.append(Section(last.level, last.title, last.anchor, f"{last.text} {plain(token)}".strip()))
    return found


def rendered(text: str, *, notes_at: str, link: Callable[[str], str] = str) -> Markup:
    """Return a Markdown text as HTML. Raw HTML in it is escaped.

    Args:
        text: the Markdown.
        notes_at: relative path of the differences page; note ids become links to it.
        link: an address in the text → the address on the site.
    """
    parser = _parser()
    environment = {"notes_at": notes_at}
    tokens = parser.parse(text, environment)
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            token.attrSet("id", slug(plain(tokens[place + 1])))
        for child in token.children or ():
            if child.type == "link_open":
                child.attrSet("href", link(str(child.attrGet("href"))))
    return Markup(parser.renderer.render(tokens, parser.options, environment))


def slug(title: str) -> str:
    """Return a heading's id, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")


def plain(token: Token) -> str:
    """Return the words of an inline token."""
    return "".join(" " if child.type.endswith("break") else child.content for child in token.children or ())


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.add_render_rule("fence", _code)
    parser.add_render_rule("code_block", _code)  # an indented block, as in docstrings
    parser.add_render_rule("text", _text)
    parser.add_render_rule("table_open", lambda *_: '<div class="table" tabindex="0"><table>')
    parser.add_render_rule("table_close", lambda *_: "</table></div>")
    return parser


def _code(_: RendererHTML, tokens: Sequence[Token], place: int, *__: Any) -> str:
    language, *more = tokens[place].info.split(maxsplit=1) or ["plain"]
    lines = highlighted(tokens[place].content.rstrip("\n").split("\n"), is_python=language in ("python", "plain"))
    code = Markup("\n").join(html_of(line) for line in lines)
    title = TITLE.search(" ".join(more))
    named = Markup("<figcaption>{}</figcaption>").format(title[1]) if title else ""
    return Markup('<figure class="code in-{}">{}<pre tabindex="0"><code>{}</code></pre></figure>\n').format(
        language, named, code
    )


def _text(_: RendererHTML, tokens: Sequence[Token], place: int, __: Any, environment: dict[str, str]) -> str:
    kinds = [token.type for token in tokens[:place]]
    if kinds.count("link_open") > kinds.count("link_close"):  # links cannot be nested
        return escape(tokens[place].content)
    return linked(tokens[place].content, environment["notes_at"])
