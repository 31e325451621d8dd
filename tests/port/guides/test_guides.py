"""The guides and notebooks: each block is what it says, runs in order in a folder, and prints what stands below it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import guide_blocks
import port
from guide_blocks import Block, blocks, compare, compare_similar, parse
from port.report.site.guides import NOTEBOOKS, ORDER, GuidePage, guides
from port.report.site.prose import sections

GUIDES = {guide.name: guide for guide in guides()}
TESTS = Path(guide_blocks.__file__).parent


def test_all_are_listed() -> None:
    folder = Path(port.__file__).parent / "guides"
    assert sorted(path.stem for path in folder.glob("*.md")) == sorted(ORDER)
    assert sorted(path.stem for path in folder.glob("*.ipynb")) == sorted(NOTEBOOKS)


@pytest.mark.parametrize("guide", GUIDES.values(), ids=list(GUIDES))
def test_each_block_is_what_it_says(guide: GuidePage) -> None:
    for block in blocks(guide.text):
        parse(block)


@pytest.mark.parametrize("guide", GUIDES.values(), ids=list(GUIDES))
def test_a_guide_has_a_title_and_a_first_sentence(guide: GuidePage) -> None:
    assert guide.text.startswith("# ")
    assert guide.sections[0].title == guide.title
    assert guide.about.endswith(".")
    assert len({section.anchor for section in guide.sections}) == len(guide.sections)


@pytest.mark.parametrize("guide", GUIDES.values(), ids=list(GUIDES))
def test_each_link_leads_to_a_guide_and_a_heading(guide: GuidePage) -> None:
    for target, anchor in re.findall(r"\]\(([\w.]*\.md)?(?:#([\w-]+))?\)", guide.text):
        other = GUIDES[target.removesuffix(".md")] if target else guide
        assert not anchor or anchor in {section.anchor for section in other.sections}, (target, anchor)


@pytest.mark.sweep
@pytest.mark.parametrize("guide", GUIDES.values(), ids=list(GUIDES))
def test_each_example_runs(guide: GuidePage, tmp_path: Path) -> None:
    done = ran(guide.text, tmp_path)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]


def ran(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A process of its own: guides register pairs and operators."""
    (folder / "guide.md").write_text(text, "utf-8")
    path = os.pathsep.join(filter(None, [str(TESTS), str(TESTS.parent), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "guide_blocks", str(folder / "guide.md"), str(folder)]
    environment = os.environ | {"PYTHONPATH": path}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=900)


# What a runner must see, or it proves nothing.

WRONG = {
    "a command with an option that is none": "```sh\nport convert a.pth --no-such-option\n```",
    "a command that is none": "```sh\nport no-such-command\n```",
    "Python that is none": "```python\nif:\n```",
    "TOML that is none": "```toml\na = \n```",
    "a kind of block that is none": "```pyhton\nx = 1\n```",
}


@pytest.mark.parametrize("text", WRONG.values(), ids=list(WRONG))
def test_a_wrong_block_is_seen(text: str) -> None:
    (block,) = blocks(text)
    with pytest.raises((SystemExit, SyntaxError, ValueError, AssertionError, ModuleNotFoundError)):
        parse(block)


FAULTS = {
    "an assertion": "```python\nassert 1 == 2\n```",
    "another exit code": "```sh exit=1\nport --version\n```",
    "another result": "```python\nprint(1)\n```\n\n```text\n2\n```",
    "a missing file": "```sh\nport convert nothing.pth --torch torchvision.models:resnet18 -o a.safetensors\n```",
    "a failure before the last line": "```sh\nport no-such-command\nport --version\n```",
    "a process that fails": '```python title="a.py"\nraise SystemExit(3)\n```\n\n```sh\npython a.py\n```',
}


@pytest.mark.sweep
@pytest.mark.parametrize("text", FAULTS.values(), ids=list(FAULTS))
def test_a_planted_fault_is_seen(text: str, tmp_path: Path) -> None:
    done = ran(text, tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr


def test_dots_stand_for_anything_and_lines_may_break() -> None:
    printed = "the first line\nagree: losses by 2e-16,\n   weights by 1e-16\n"
    compare(Block("text", "", "agree: losses by …, weights\nby …\n", 1), printed)
    with pytest.raises(AssertionError):
        compare(Block("text", "", "agree: losses by …, weight decay\n", 1), printed)


def test_what_is_similar_has_other_numbers_only() -> None:
    printed = "jax  started\nafter the steps: 3 losses, the last 2.1e-16\n"
    speed = "torch float64  done  step 16/16  loss 0.875341  107 steps/s\n"
    compare_similar(Block("text", "similar", f"after the steps: 4 losses, the last 0.5\n{speed}", 1), printed)
    for other in ("behind the steps: 3 losses, the last 2.1e-16", "after the steps: 3 losses, and more", "fc1 started"):
        with pytest.raises(AssertionError):
            compare_similar(Block("text", "similar", f"{other}\n", 1), printed)


def test_a_file_is_written_and_added_to(tmp_path: Path) -> None:
    text = '```python title="a/b.py"\nx = 1\n```\n\n```python title="a/b.py" append\ny = 2\n```\n'
    done = ran(text, tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "a" / "b.py").read_text() == "x = 1\ny = 2\n"


def test_headings_in_code_are_none() -> None:
    text = "# A title\n\nWords with `code`.\n\n```python\n# a comment\n```\n\n## Part: one & two\n\nMore.\n"
    assert [(one.level, one.title, one.anchor, one.text) for one in sections(text)] == [
        (1, "A title", "a-title", "Words with code."),
        (2, "Part: one & two", "part-one--two", "More."),
    ]
