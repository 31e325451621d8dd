"""The page of a run in a real browser, as a person meets it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser import Browser
from port.report import write_run_page
from port.training import judge

from .conftest import falling, record

PARTED = 40
NASTY = (
    "jax <script>document.title = 'hacked'</script><img src=http://example.invalid/x onerror=document.title='hacked'>"
)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of a proof that parts at step 40; its records and its config try to be more than text."""
    folder = tmp_path_factory.mktemp("page")
    about = {"layers": ["torch.nn.modules.linear.Linear", NASTY], "device": NASTY}
    torch = record(folder / "torch.jsonl", "torch", [loss / 3 for loss in falling(60)], **about)
    jax = record(folder / "jax.jsonl", NASTY, [loss / 3 for loss in falling(60, PARTED)], **about)
    config = {"model": "mlp", "optimizer": "sgd", NASTY: NASTY}
    write_run_page([judge("float64", torch, jax)], folder / "run.html", config=config, ended=NASTY)
    return folder / "run.html"


@pytest.fixture(scope="module")
def window(chromium: Any, page: Path) -> Iterator[Any]:
    """The page, opened once for the tests that leave it as it was; errors and requests fail the last of them."""
    with Browser(chromium) as browser:
        opened = browser.open(page, color_scheme="light")
        opened.wait_for_selector("html[data-drawn]")
        yield opened


@pytest.mark.sweep
def test_hovering_shows_what_the_record_has(window):
    figure = window.locator("#figure-1")
    figure.scroll_into_view_if_needed()
    place = figure.bounding_box()
    window.mouse.move(place["x"] + place["width"] / 2, place["y"] + place["height"] / 4)
    label = figure.locator(".hoverlayer .legend")
    label.wait_for()
    step = int(re.search(r"step (\d+)", label.text_content())[1])
    shown = label.text_content() + window.locator("[data-reading] output").text_content()
    assert shown.count(repr(falling(60)[step] / 3)) >= 2
    assert repr(falling(60, PARTED)[step] / 3) in shown
    window.mouse.move(1, 1)


def test_what_a_record_says_is_text(window):
    assert "hacked" not in window.evaluate("document.title").split()
    assert window.locator("main img, main script").count() == 0
    assert window.locator("h1").inner_text() == f"torch and {NASTY} part at step {PARTED}."
    assert NASTY in window.locator("#config").inner_text()
    assert NASTY in window.locator("#environment").inner_text()
    assert window.get_by_role("button", name=NASTY, exact=True).count() == 1


def test_the_keyboard_reaches_all_that_can_be_clicked(window):
    window.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    wanted = {"Skip to the verdict", "dark", "to step 40", "←", "→", "+", "−", "reset", "torch", "limit", "range"}
    wanted |= {"Where to look", "summary"}
    for _ in range(80):
        window.keyboard.press("Tab")
        text, tag, outline = window.evaluate(
            "(it => [(it.textContent || it.type).trim(), it.localName, getComputedStyle(it).outlineStyle])"
            "(document.activeElement)"
        )
        assert outline == "solid", text
        wanted -= {text, tag}
        if not wanted:
            break
    assert not wanted


def test_zooming_by_keys_shows_fewer_steps_in_every_figure(window):
    def width(figure: str) -> float:
        first, last = window.evaluate(f"document.getElementById('{figure}')._fullLayout.xaxis.range")
        return last - first

    whole = width("figure-1")
    toolbar = window.locator("[data-toolbar=figure-1]")
    toolbar.get_by_role("button", name="zoom in").press("Enter")
    assert width("figure-1") == width("figure-1-2") == pytest.approx(whole / 2)
    toolbar.get_by_role("button", name="to step").press("Enter")
    assert window.locator("[data-reading] output").text_content().startswith(f"step {PARTED}")
    toolbar.get_by_role("button", name="zoom out").press("Enter")
    toolbar.get_by_role("button", name="reset").press("Enter")
    assert width("figure-1") == whole


def test_the_slider_reads_step_by_step(window):
    slider = window.locator("[data-reading] input")
    slider.press("Home")
    slider.press("ArrowRight")
    assert repr(falling(60)[1] / 3) in window.locator("[data-reading] output").text_content()


def test_light_and_dark_differ_and_the_figures_follow(window):
    def look() -> tuple[str, str]:
        ground = window.evaluate("getComputedStyle(document.body).backgroundColor")
        return ground, window.evaluate("document.getElementById('figure-1')._fullData[1].line.color")

    light = look()
    assert light[1] == "#1d6fa5"
    window.emulate_media(color_scheme="dark")
    window.get_by_role("button", name="switch to light").wait_for()
    dark = look()
    assert dark[1] == "#63b3ea"
    window.get_by_role("button", name="switch to light").click()
    assert look() == light
    window.get_by_role("button", name="switch to dark").click()
    assert look() == dark
    assert dark[0] != light[0]


def test_a_phone_needs_no_scrolling_sideways(window):
    before = window.viewport_size
    window.set_viewport_size({"width": 390, "height": 844})
    window.locator("#look summary").first.click()
    assert window.evaluate("document.documentElement.scrollWidth") <= 390
    figure = window.locator("#figure-1 svg").first
    give_up = time.monotonic() + 10
    while figure.bounding_box()["width"] > 390:  # plotly takes a moment
        assert time.monotonic() < give_up
        window.wait_for_timeout(20)
    assert window.evaluate("document.documentElement.scrollWidth") <= 390
    window.set_viewport_size(before)


def test_without_javascript_the_verdict_and_the_tables_are_there(browser_page, page):
    opened = browser_page.open(page, java_script_enabled=False)
    assert f"part at step {PARTED}" in opened.locator("h1").inner_text()
    assert "drawn by JavaScript, which is disabled" in opened.locator("main").inner_text()
    assert repr(falling(60)[PARTED] / 3) in opened.locator("table").first.inner_text()
    assert not opened.locator("#theme").is_visible()


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        ("<script>console.error('out of paper')</script>", "error on the console: out of paper"),
        ("<script>nothing.there()</script>", "an exception: nothing is not defined"),
        ("<img src='http://example.invalid/x.png'>", "a request: http://example.invalid/x.png"),
    ],
)
def test_the_fixture_sees_planted_faults(fault, complaint, chromium):
    with pytest.raises(AssertionError, match=re.escape(complaint)), Browser(chromium) as browser:
        browser.open(f"<!DOCTYPE html><p>fine{fault}")
