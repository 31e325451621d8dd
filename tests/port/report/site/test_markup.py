"""Lines as HTML: nothing lost, nothing that a browser would obey."""

from __future__ import annotations

import html
import re

from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from port.lessons import Span
from port.pairs.notes import NOTES
from port.report.site.markup import highlighted, html_of, linked
from port.visible import visible

LINE = st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), max_size=60)
CODE = st.sampled_from(
    ['x = "<b>" & y  # W7 < 3', "def f(a: int) -> str:", "'''", "\tif a:\f", "\x1b[31m", "</script>"]
)


def text_of(markup):
    assert isinstance(markup, Markup)
    return html.unescape(re.sub(r"<[^<>]*>", "", str(markup)))


@given(st.lists(LINE | CODE, max_size=12), st.booleans())
def test_no_character_is_lost(lines, is_python):
    shown = [html_of(pieces, notes_at="notes.html") for pieces in highlighted(lines, is_python=is_python)]
    assert [text_of(line) for line in shown] == [visible(line) for line in lines]


@given(LINE | CODE, st.lists(st.integers(0, 60), max_size=6).map(sorted))
def test_marks_stand_where_they_should(line, places):
    (pieces,) = highlighted([line])
    spans = [Span(a, min(b, len(visible(line)))) for a, b in zip(places[::2], places[1::2], strict=False)]
    spans = [span for span in spans if span.start < span.stop]
    shown = str(html_of(pieces, spans))
    marked = "".join(text_of(Markup(part)) for part in re.findall(r"<mark>(.*?)</mark>", shown, re.S))
    assert marked == "".join(visible(line)[span.start : span.stop] for span in spans)
    assert text_of(Markup(shown)) == visible(line)


def test_what_a_source_says_is_never_a_tag():
    (pieces,) = highlighted(['# <script>alert("W7")</script>'])
    shown = str(html_of(pieces, notes_at="notes.html"))
    assert set(re.findall(r"<(\w+)", shown)) == {"span", "a"}
    assert "&lt;script&gt;" in shown
    assert str(linked("<script>`<b>`</script>", "")).count("<") == 2  # <code> and </code>


def test_notes_are_linked_in_prose_alone():
    comment, code = (str(html_of(highlighted([line])[0], notes_at="n.html")) for line in ("# see (W7)", "W7 = W7x(1)"))
    assert '<a class="note" href="n.html#W7">W7</a>' in comment
    assert "href" not in code
    assert "href" not in str(linked("W" + "999 and Z1 are no notes", "n.html"))
    assert all(f"#{note.id}" in str(linked(f"as {note.id} says", "n.html")) for note in NOTES)


def test_keywords_are_highlighted():
    assert '<span class="k">return</span>' in str(html_of(highlighted(["return x"])[0]))
    assert "span" not in str(html_of(highlighted(["return x"], is_python=False)[0]))
