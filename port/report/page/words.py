"""The page's wording: its headline, its numbers, and text from files, which may hold anything."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup, escape

from port.records import Status, Verdict
from port.records.limits import later_floor
from port.report.page.subject import Subject

LONGEST = 2000
"""The most characters of one value that are shown."""
_POWER = re.compile(r"\b\d[\d.]*e-\d+\b")
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def headline(subjects: Sequence[Subject]) -> str:
    """Return the page's headline: how the run stopped early, or the verdict over all comparisons."""
    broken = [(subject.name, ", and ".join(subject.broken)) for subject in subjects if subject.broken]
    if broken:
        where = "; ".join(f"{name}: {how}" if len(subjects) > 1 else how for name, how in broken)
        return f"The run stopped early: {where}."
    verdicts = [subject.verdict for subject in subjects if subject.verdict is not None]
    if not verdicts:
        return "There is nothing to compare."
    names = " and ".join(subjects[0].labels)
    parted = next((verdict for verdict in verdicts if verdict.status is Status.DIFFER), None)
    if parted is not None:
        if not parted.steps.steps:
            return f"{names} have no step in common."
        first = parted.first
        if first is None or first.step is None:
            return f"{names} differ in their final weights."
        return f"{names} part at {'the evaluation after ' if first.where == 'evaluation' else ''}step {first.step}."
    if any(verdict.status is Status.CANNOT_JUDGE for verdict in verdicts):
        return f"{names} cannot be judged."
    if not any(verdict.precision == "float64" for verdict in verdicts) and any(map(_is_far, verdicts)):
        return f"{names} are as far apart as {subjects[0].labels[0]} is from itself."
    return f"{names} are the same run."


def _is_far(verdict: Verdict) -> bool:
    """Whether two runs that agree are further apart than a reader would call the same."""
    largest = verdict.steps.largest()
    return largest is not None and largest[1] > later_floor(verdict.precision)


def status_of(subject: Subject) -> str:
    """Return the class of a comparison's colour: "agree", "differ", "unjudged" or "broken"."""
    return "broken" if subject.broken or subject.verdict is None else colour_of(subject.verdict.status)


def colour_of(status: Status) -> str:
    """Return a status as a class name in the style sheet."""
    return "unjudged" if status is Status.CANNOT_JUDGE else str(status)


def kind_of(subject: Subject) -> str:
    """Return what kind of evidence a comparison is."""
    precision, count = subject.precision, len(subject.controls)
    if precision == "float64":
        evidence = "the proof: rounding stays near 1e-12, a fault does not"
    elif count:
        evidence = f"measured against {count} control{'' if count == 1 else 's'}"
    else:
        evidence = "without controls"
    return evidence if subject.name == precision else f"{precision}, {evidence}"


def number(value: float | None, *, whole: bool = False) -> str:
    """Format a number as the record has it, to the last digit."""
    if value is None:
        return "–"
    return str(int(value)) if whole else repr(float(value))


def apart(value: float | None) -> str:
    """Format a relative difference."""
    return "–" if value is None else "0" if value == 0 else f"{value:.2e}"


def shown(value: Any) -> Any:
    """Return text from outside for the template: invisible characters made visible, long text cut.

    Control characters (terminal escapes too), marks that change the direction of writing, and unpaired surrogates,
    which no file can hold, are written as their code points. The template escapes HTML.
    """
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    text = _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text)} characters)"


def coded(text: str) -> Markup:
    """Return one of our sentences, with text between backticks as code."""
    parts = text.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if place % 2 else escape(part) for place, part in enumerate(parts)
    )


def said(sentence: str, labels: Sequence[str] = ()) -> Markup:
    """Return a sentence with each number kept on one line; if it begins with both sides, they get their colours."""
    start = Markup("")
    if labels and sentence.startswith(f"{labels[0]} and {labels[1]} "):
        sentence = sentence.removeprefix(f"{labels[0]} and {labels[1]}")
        names = map(shown, labels)
        start = Markup('<span class="torch">{}</span> and <span class="jax">{}</span>').format(*names)
    return start + Markup(_POWER.sub(r'<span class="whole">\g<0></span>', str(escape(shown(sentence)))))
