"""Opening a page, and saying where it is where none can be opened."""

from __future__ import annotations

import webbrowser
from io import StringIO

import pytest
from rich.console import Console

from port.report import open_page


def opened(path, monkeypatch, answer):
    asked = []

    def browser(address):
        asked.append(address)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(webbrowser, "open", browser)
    text = StringIO()
    open_page(path, Console(file=text, width=40))
    return asked, text.getvalue()


def test_a_page_is_opened_by_its_address(tmp_path, monkeypatch):
    path = tmp_path / "a run [red].html"
    assert opened(path, monkeypatch, True) == ([path.as_uri()], "")


@pytest.mark.parametrize("answer", [False, webbrowser.Error("none"), OSError("none")])
def test_without_a_browser_the_path_is_printed(answer, tmp_path, monkeypatch):
    path = tmp_path / "a run [red].html"
    assert str(path) in opened(path, monkeypatch, answer)[1]
