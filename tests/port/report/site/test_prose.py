"""Markdown as HTML: what is in it is shown, links lead on, and nothing in it is obeyed."""

from __future__ import annotations

import pytest

from port.report.site.guides import link_from_guide
from port.report.site.prose import rendered, slug


def html(text: str) -> str:
    return str(rendered(text, notes_at="../differences.html", link=link_from_guide))


def test_html_is_shown_and_not_obeyed() -> None:
    shown = html('<script>alert(1)</script> and `<b>`\n\n```python title="<i>.py"\nx = "<u>"\n```\n')
    assert "<script" not in shown
    assert "<u>" not in shown
    assert "<i>" not in shown
    assert "&lt;script&gt;" in shown
    assert "&lt;i&gt;.py" in shown


def test_code_is_highlighted_and_named() -> None:
    shown = html('```python title="net.py"\ndef net(x): ...\n```\n')
    assert "<figcaption>net.py</figcaption>" in shown
    assert '<span class="nf">net</span>' in shown
    assert html("```sh\ndef net\n```\n").count("span") == 0


def test_ids_of_notes_are_links_but_not_in_code_nor_within_links() -> None:
    note = '<a class="note" href="../differences.html#W7">W7</a>'
    assert note in html("momentum (W7)")
    assert note not in html("`W7`")
    assert note not in html("[about W7](prove_it.md)")
    assert "Q77</p>" in html("Q77")


@pytest.mark.parametrize(
    ("address", "on_the_site"),
    [
        ("prove_it.md", "prove_it.html"),
        ("prove_it.md#the-answer", "prove_it.html#the-answer"),
        ("#the-answer", "#the-answer"),
        ("../judging/limits.py#L3", "../source/judging/limits.html#L3"),
        ("https://example.org/a.md", "https://example.org/a.md"),
    ],
)
def test_links_lead_to_the_sites_pages(address: str, on_the_site: str) -> None:
    assert f'href="{on_the_site}"' in html(f"[there]({address})")


def test_a_heading_has_githubs_anchor() -> None:
    assert '<h2 id="its-so-a--b">' in html("## It's so: a & `b`\n")
    assert slug("They differ: what now?") == "they-differ-what-now"
