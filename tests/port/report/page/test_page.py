"""The page of a run as a file: what it says, what it holds, and that nothing breaks out of it."""

from __future__ import annotations

import base64
import gzip
import json
import math
import re
import subprocess
import tomllib
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import pytest

from port.errors import UsageError
from port.records import Record, RecordLine, compare
from port.report import write_run_page
from port.report.page.scripts import hash_of, in_script
from port.training import Outcome, Remains

from .conftest import falling

NASTY = "</script><script>alert(1)</script>\x1b[31m\u202e\ud800<b>"


class Read(HTMLParser):
    """A page as a browser reads it: its elements, its text, and what stands in each script."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text = self.h1 = ""
        self._open: list[str] = []
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))
        self._open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._open[-1:] == ["script"]:
            self.scripts[-1] += data
        elif "style" not in self._open:
            self.text += data
            self.h1 += data if "h1" in self._open else ""

    @property
    def figures(self) -> dict:
        return json.loads(self.scripts[0], parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


@pytest.fixture
def written(tmp_path):
    def written(*outcomes: Outcome | Remains, **facts) -> Read:
        write_run_page(outcomes, tmp_path / "run.html", **facts)
        assert not list(tmp_path.glob(".*part*"))
        return Read(tmp_path / "run.html")

    return written


def test_the_verdict_comes_first_and_all_is_said(make_outcome, written):
    base = falling(30)
    controls = [[loss * 1.0001 for loss in base]] * 2
    page = written(
        make_outcome(base, base),
        make_outcome(base, base, *controls, name="float32"),
        config={"model": "convnet", "optimizer": "sgd", "lr": None},
        environment={"python": "3.11.7", "packages": {"jax": "0.10.2"}},
    )
    assert page.h1 == "torch and jax are the same run."
    for words in (
        "the same over 30 steps in float64",
        "the same losses to the last bit",
        "measured against 2 controls",
        "first step, with compilation",
        "convnet",
        "Left at their defaults: lr",
        "3.11.7",
        "0.10.2",
        "SGD with momentum and weight decay",
        repr(base[-1]),
    ):
        assert words in page.text, words
    assert page.text.index("the same run.") < page.text.index("Speed") < page.text.index("Where to look")
    assert list(page.figures) == [f"figure-{n}{panel}" for n in (1, 2) for panel in ("", "-1", "-2", "-3")]


def test_where_they_part_is_said_and_the_sides_configs_are_compared(make_outcome, written, tmp_path):
    outcome = make_outcome(falling(30), falling(30, parted=12))
    torch = replace(outcome.torch, about={**outcome.torch.about, "config": {"lr": 0.05, "model": "mlp"}})
    jax = replace(outcome.jax, about={**outcome.jax.about, "config": {"lr": 0.5, "model": "mlp"}})
    page = written(replace(outcome, torch=torch, jax=jax))
    assert page.h1 == "torch and jax part at step 12."
    assert "had different options: lr." in page.text
    assert page.figures["figure-1"]["first"] == 12
    assert outcome.verdict.hints[0] in page.text
    assert "grad_norm first parts at step 12" in page.text


def test_runs_without_a_common_step_do_not_part_at_one(make_outcome, written):
    outcome = make_outcome(falling(10), falling(10))
    jax = replace(outcome.jax, steps={step + 1000: line for step, line in outcome.jax.steps.items()})
    page = written(replace(outcome, jax=jax, verdict=compare(outcome.torch, jax)))
    assert page.h1 == "torch and jax have no step in common."


def test_a_run_that_broke_off_says_so_in_its_first_sentence(make_outcome, written):
    outcome = make_outcome(falling(30), falling(20), total_steps=30)
    jax = replace(outcome.jax, finished=False)
    page = written(replace(outcome, jax=jax), ended="torch scripts ended:\nout of paper")
    assert page.h1 == "The run stopped early: jax's record breaks off after step 19 of 30."
    assert "out of paper" in page.text
    assert page.figures["figure-1"]["b"][20:] == [None] * 10


def test_a_side_without_a_record_is_said_to_be_missing(make_outcome, written):
    torch = make_outcome(falling(30), falling(30)).torch
    page = written(Remains("scripts", torch, None, (), None, {"jax": "there is no file jax.jsonl"}))
    assert page.h1 == "The run stopped early: there is no record of jax (there is no file jax.jsonl)."
    assert page.figures["figure-1"]["a"] == falling(30)
    assert repr(falling(30)[0]) in page.text


def test_what_comes_from_files_is_text(make_outcome, written):
    about = {"layers": [NASTY], "device": NASTY, NASTY: NASTY, "config": {NASTY: NASTY}}
    outcome = make_outcome(falling(12), falling(12, parted=3), **about)
    verdict = replace(outcome.verdict, hints=[NASTY], sentence=NASTY)
    steps = {step: replace(line, more={NASTY: line.loss}) for step, line in outcome.torch.steps.items()}
    torch = replace(outcome.torch, steps=steps, about={**outcome.torch.about, "side": NASTY})
    odd = replace(outcome, torch=torch, jax=replace(outcome.jax, steps=steps), verdict=verdict, name=NASTY)
    page = written(odd, title=NASTY, config={NASTY: [NASTY]}, environment={"packages": {NASTY: NASTY}}, ended=NASTY)
    assert [attributes.get("type") for tag, attributes in page.elements if tag == "script"] == [
        "application/json",
        "text/plain",
        None,
    ]
    assert not [tag for tag, _ in page.elements if tag == "b"]
    assert "alert" not in page.scripts[1][-100:] + page.scripts[2]
    assert page.text.count("</script><script>alert(1)</script>\\u001b[31m\\u202e\\ud800<b>") > 10
    assert NASTY in page.figures["figure-1"]["labels"]
    assert "\x1b" not in page.source


def test_json_in_a_script_is_json_and_no_markup():
    assert in_script({"a": "</script>&<!--"}) == '{"a":"\\u003c/script\\u003e\\u0026\\u003c!--"}'
    with pytest.raises(ValueError, match="JSON compliant"):
        in_script([math.nan])


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_said_in_words(value, make_outcome, written):
    jax = falling(30)
    jax[11] = value
    page = written(make_outcome(falling(30), jax))
    assert page.figures["figure-1"]["b"][11] is None
    assert page.figures["figure-1-2"]["b"][11] is None
    assert f"jax's loss is not finite at step 11 ({value}): a gap in its curve." in page.text


def test_a_run_of_one_step_and_one_that_never_differs(make_outcome, written):
    assert written(make_outcome([1.5], [1.5])).h1 == "torch and jax are the same run."


def test_float32_alone_that_is_far_apart_is_not_called_the_same(make_outcome, written):
    base, control = [1.0] * 30, [1.0] * 5 + [0.8] * 25
    page = written(make_outcome(base, [1.0] * 6 + [0.81] * 24, control, name="float32"))
    assert page.h1 == "torch and jax are as far apart as torch is from itself."
    assert "no further apart in float32 than torch is from itself" in page.text
    near = written(make_outcome(base, [1.0] * 29 + [1 - 1e-7], control, name="float32"))
    assert near.h1 == "torch and jax are the same run."


def more(step: int, number: int) -> dict[str, float]:
    return dict.fromkeys(("lr", "grad_norm"), (step * 31 % 977) / 7 + number * 1e-13)


def long_run(steps: int) -> list[Outcome]:
    outcomes = []
    for precision in ("float64", "float32"):
        sides = []
        for number, side in enumerate(("torch", "jax", "control-1", "control-2")):
            lines = {
                step: RecordLine(
                    step, 1 / 3 + (step * 7919 % 1000) / 997 * (1 + number * 1e-13), step / 100, more(step, number)
                )
                for step in range(steps)
            }
            about = {"side": side, "precision": precision, "config": {}}
            tested = {step: lines[step] for step in range(9, steps, 10)}
            sides.append(Record(Path(f"{side}.jsonl"), about, lines, tested, finished=True))
        torch, jax, *controls = sides
        verdict = compare(torch, jax, controls=controls)
        outcomes.append(Outcome(precision, torch, jax, tuple(controls), verdict, None))
    return outcomes


@pytest.mark.parametrize("steps", [5_000, pytest.param(100_000, marks=pytest.mark.sweep)])
def test_a_long_run_stays_below_3_mb_and_says_that_it_is_thinned(steps, written):
    outcomes = long_run(steps)
    page = written(*outcomes)
    assert len(page.source.encode()) < 3_000_000
    assert f"Thinned: of {steps:,} steps" in page.text
    figure = page.figures["figure-1"]
    assert 500 < len(figure["steps"]) < 3000
    for side, record in (("a", outcomes[0].torch), ("b", outcomes[0].jax)):
        losses = [record.steps[step].loss for step in figure["steps"]]
        assert figure[side] == losses
        assert (min(losses), max(losses)) == (
            min(line.loss for line in record.steps.values()),
            max(line.loss for line in record.steps.values()),
        )
    largest = outcomes[0].verdict.steps.largest()
    assert largest is not None
    assert largest[1] in figure["differences"]


def test_its_policy_lets_its_own_scripts_run_and_nothing_else(make_outcome, written):
    page = written(make_outcome(falling(5), falling(5)))
    policy = next(a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; ")
    hashes = re.findall("'(sha256-[^']+)'", policy)
    scripts = gzip.decompress(base64.b64decode(page.scripts[1])).decode(), page.scripts[2]
    assert scripts[0].lstrip().startswith("/**\n* plotly.js") and hashes == [hash_of(script) for script in scripts]
    assert "unsafe" not in policy.partition("script-src")[2]
    linked = [a.get("src") or a.get("href") for _, a in page.elements if a.get("src") or a.get("href")]
    assert all(link.startswith(("#", "data:")) for link in linked)


def test_it_is_written_whole_or_not_at_all(make_outcome, tmp_path):
    outcome = make_outcome(falling(5), falling(5))
    (tmp_path / "a.jsonl").write_text("mine")
    with pytest.raises(UsageError, match=r"ends with \.html"):
        write_run_page([outcome], tmp_path / "a.jsonl")
    assert (tmp_path / "a.jsonl").read_text() == "mine"
    with pytest.raises(UsageError, match="cannot be written"):
        write_run_page([outcome], tmp_path / "nowhere" / "run.html")
    (tmp_path / "link.html").symlink_to(tmp_path / "there.html")
    write_run_page([outcome], tmp_path / "link.html")
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "there.html").stat().st_size > 1e6


def test_the_templates_go_into_the_wheel():
    folder = files("port.report.page")
    names = [path.name for path in folder.iterdir() if path.name.endswith((".jinja", ".css", ".js"))]
    assert sorted(names) == ["run_page.html.jinja", "script.js", "shared.js", "style.css", "table.jinja"]
    root = Path(__file__).parents[4]
    project = tomllib.loads((root / "pyproject.toml").read_text())
    assert "port" in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    if not (root / ".git").exists():
        pytest.skip("no checkout of git, whose ignored files alone stay out of the wheel")
    paths = [f"port/report/page/{name}" for name in names]
    ignored = subprocess.run(["git", "check-ignore", *paths], cwd=root, capture_output=True, text=True, check=False)
    assert (ignored.returncode, ignored.stdout) == (1, "")
