"""The site in a real browser, opened from the file system."""

from __future__ import annotations

from pathlib import Path

import pytest

from port.lessons import find_lesson, source_of
from port.report.site import reading_of_files, reading_of_lesson, write_site

pytestmark = pytest.mark.sweep

ROGUE = """# <script>document.title = "obeyed"</script> \x1b[31m
import torch  # <img src=x onerror="document.title = 'obeyed'">


def net(x):
    return "</code></div>" + x
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "tour"
    rogue = reading_of_files(source_of(ROGUE, "<b>a.py"), source_of(ROGUE.replace("torch", "jax"), "b.py"))
    write_site([*(reading_of_lesson(find_lesson(name)) for name in ("parallel", "model")), rogue], folder)
    return folder


def test_aligned_rows_are_at_equal_heights(site, browser_page):
    page = browser_page.open(site / "lessons/model.html")
    boxes = page.evaluate(
        """() => [...document.querySelectorAll(".row")].map((row) => [...row.querySelectorAll("code")]
            .map((cell) => cell.getBoundingClientRect()).map((box) => [box.top, box.height, box.left, box.width]))"""
    )
    assert len(boxes) == len(reading_of_lesson(find_lesson("model")).alignment.rows)
    for left, right in boxes:
        assert left[:2] == right[:2]
        assert left[1] > 0
    assert len({(left[2], left[3], right[2], right[3]) for left, right in boxes}) == 1
    assert boxes[0][0][3] == pytest.approx(boxes[0][1][3], abs=1)  # as wide as one another
    tops = [left[0] for left, _ in boxes]
    assert tops == sorted(tops)
    assert len(set(tops)) == len(tops)


def test_the_search_finds_sync_batch_norm(site, browser_page):
    page = browser_page.open(site / "lessons/model.html")
    page.keyboard.press("/")
    page.keyboard.type("SyncBatchNorm")
    found = page.locator("#found a").all_inner_texts()
    assert any("torch.nn.SyncBatchNorm" in text for text in found)
    assert any("side_by_side/pytorch/parallel.py, line" in text for text in found)
    assert all("syncbatchnorm" in text.lower() or "…" in text for text in found)
    line = next(place for place, text in enumerate(found) if "side_by_side/pytorch/parallel.py" in text)
    for _ in range(line):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/lessons/parallel.html#torch-*")
    assert "SyncBatchNorm" in page.locator(".number:target + code").inner_text()
    assert page.locator(".number:target").is_visible()
    page.fill("#search", "zzzz nothing of the sort")
    assert page.locator("#found").inner_text() == "nothing found"
    page.keyboard.press("Escape")
    assert page.locator("#found").is_hidden()


def test_a_line_can_be_linked_to_whatever_the_view(site, browser_page):
    page = browser_page.open(site / "lessons/model.html")
    page.locator(".number.jax", has_text="40").first.click()
    assert page.url.endswith("#jax-40")
    page.locator(".views").get_by_text("PyTorch", exact=True).click()
    assert page.locator("#jax-40").is_hidden()
    page.evaluate("location.hash = '#jax-41'")
    page.wait_for_function("document.getElementById('jax-41').checkVisibility()")
    page.reload()  # what was chosen is remembered; the line is shown nonetheless
    assert page.locator("#jax-41").is_visible()


def test_the_views_show_each_line_that_they_should(site, browser_page):
    page = browser_page.open(site / "lessons/model.html")
    reading = reading_of_lesson(find_lesson("model"))
    torch, jax = (len(source.lines) for source in reading.sources)

    def shown():
        return page.evaluate("[...document.querySelectorAll('a.number')].filter((a) => a.checkVisibility()).length")

    assert shown() == torch + jax
    for view, expected in (("unified", torch + jax - reading.counts["equal"]), ("PyTorch", torch), ("JAX", jax)):
        page.locator(".views").get_by_text(view, exact=True).click()
        assert shown() == expected, view


@pytest.mark.parametrize(
    "path",
    [
        *("lessons/parallel.html", "index.html", "differences.html", "cheat_sheet.html", "tutorials.html"),
        *("guides/index.html", "guides/prove_it.html", "guides/write_a_pair.html", "guides/large_models.html"),
        *("reference/index.html", "reference/port.nn.html", "reference/port.html", "source/nn/norm.html"),
    ],
)
def test_usable_on_a_phone(site, browser_page, path):
    page = browser_page.open(site / path, viewport={"width": 375, "height": 812})
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    page.locator("#search").click()
    page.keyboard.type("relu")
    box = page.locator("#found").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 375
    if "lessons" in path:
        assert page.locator("code.none").first.is_hidden()
        assert page.locator(".row code").first.bounding_box()["width"] > 300  # one column
        page.keyboard.press("Escape")
        page.locator(".contents summary").click()
        assert page.evaluate("document.documentElement.scrollWidth") <= 375
        page.keyboard.press("Escape")
        assert page.locator(".contents ul").is_hidden()


def test_filters(site, browser_page):
    page = browser_page.open(site / "cheat_sheet.html")
    page.locator(".filter").fill("nnx.conv conv2d")
    shown = page.locator("tbody tr:visible td.torch").all_inner_texts()
    assert "torch.nn.Conv2d" in shown
    assert "torch.nn.Linear" not in shown
    page.locator("tbody tr:visible a", has_text="layers/conv").first.click()
    page.wait_for_url("**/pairs/layers/conv.html#line-*")
    assert "Conv" in page.locator(".number:target + code").inner_text()
    assert page.locator("h1").inner_text() == "port/pairs/layers/conv.py"


def test_a_link_to_what_is_filtered_away_shows_it(site, browser_page):
    page = browser_page.open(site / "differences.html")
    page.locator(".filter").fill("Adafactor")
    assert page.locator("#W7").is_hidden()
    page.evaluate("location.hash = '#W7'")
    page.wait_for_function("document.getElementById('W7').checkVisibility()")
    page.locator(".filter").fill("nothing of the sort at all")
    assert page.locator(".heading .nothing").is_visible()


def test_lines_said_otherwise_have_an_edge(site, browser_page):
    page = browser_page.open(site / "lessons/model.html")
    edges = page.evaluate(
        """() => Object.fromEntries(["equal", "changed"].map((kind) =>
            [kind, getComputedStyle(document.querySelector(`.row.${kind} code.torch`)).boxShadow]))"""
    )
    assert edges["equal"] == "none"
    assert edges["changed"] != "none"


def test_light_and_dark(site, browser_page):
    def paper(page):
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    light, dark = (browser_page.open(site / "index.html", color_scheme=scheme) for scheme in ("light", "dark"))
    assert paper(light) != paper(dark)
    before = paper(dark)
    dark.locator("#theme").click()
    assert paper(dark) == paper(light)
    dark.goto((site / "differences.html").as_uri())
    assert paper(dark) == paper(light) != before  # remembered from page to page


def test_what_a_source_says_is_not_obeyed(site, browser_page):
    page = browser_page.open(site / "lessons/b-a-py-b-py.html")
    assert page.title() == "<b>a.py ⇄ b.py · port"
    assert page.locator("code.torch").first.inner_text() == ROGUE.splitlines()[0].replace("\x1b", r"\x1b")
    page.fill("#search", "obeyed")
    assert page.locator("#found script, #found img, main script, main img").count() == 0
    assert "<script>" in page.locator("#found").inner_text()


def test_whole_without_scripts(site, browser_page):
    page = browser_page.open(site / "lessons/model.html", java_script_enabled=False)
    left, right = (page.locator(f".row code.{side}").nth(20).bounding_box() for side in ("torch", "jax"))
    assert left["y"] == right["y"]
    assert left["x"] < right["x"]
    for dead in ("#search", "#theme", ".views"):
        assert page.locator(dead).is_hidden()


def test_one_search_finds_guides_the_reference_and_lessons(site, browser_page):
    page = browser_page.open(site / "lessons/model.html")
    for typed, found_at in (
        ("Move a checkpoint", "guides/move_a_checkpoint.html"),
        ("port.nn.BatchNorm", "reference/port.nn.html#port.nn.BatchNorm"),
        ("chaotic training float64's rounding", "guides/how_it_judges.html#float64-is-the-proof"),
    ):
        page.fill("#search", typed)
        assert page.locator("#found a").first.get_attribute("href") == f"../{found_at}"
    page.fill("#search", "port.nn.BatchNorm")
    page.keyboard.press("Enter")
    page.wait_for_url("**/reference/port.nn.html#port.nn.BatchNorm")
    page.locator("#port\\.nn\\.BatchNorm small a").first.click()
    page.wait_for_url("**/source/nn/norm.html#line-*")
    assert page.locator(".number:target + code").inner_text().startswith("class BatchNorm")


def test_a_guide_says_which_one_it_is(site, browser_page):
    page = browser_page.open(site / "guides/prove_it.html")
    assert page.locator(".aside a[aria-current]").inner_text() == "Prove it"
    assert page.locator("header nav a[aria-current]").inner_text() == "Guides"
    page.locator(".around a[rel=next]").click()
    page.wait_for_url("**/guides/they_differ.html")
    page.locator(".aside ul a", has_text="A training run").click()
    assert page.url.endswith("#a-training-run")
    assert page.locator("#a-training-run").is_visible()
