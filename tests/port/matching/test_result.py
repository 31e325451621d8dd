"""What a match says: proved, differing or open; and what a person can do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from port.judging import Status
from port.mapping import Mapping
from port.matching.result import Candidate, Match, Row, renaming_to

ROW = Row(("a.weight",), ("b.kernel",), "order")


def match(
    *rows: Row, findings: tuple[str, ...] | None = (), mode: str = "evaluation", unjudged: tuple[str, ...] = ()
) -> Match:
    report: Any = None
    if findings is not None:
        found = [SimpleNamespace(what=what, mode=mode if what != "weights" else "") for what in findings]
        status = Status.DIFFER if found else Status.AGREE
        report = SimpleNamespace(
            findings=found, unjudged=unjudged, agree=not found, status=status, hints=(), sentence="They differ.",
            compared={"outputs": 2, "buffers": 0}, precision="float64",
        )  # fmt: skip
    return Match(Mapping(()), rows or (ROW,), report, (), "")


@pytest.mark.parametrize(
    ("findings", "is_proved"),
    [
        ((), True),
        (("buffers",), True),
        (("input gradient", "buffers"), False),
        (("forward",), False),
        (("backward",), False),
        (("weights",), False),
    ],
)
def test_outputs_and_gradients_of_parameters_prove_it(findings: tuple[str, ...], is_proved: bool) -> None:
    found = match(findings=findings)
    assert bool(found) == found.is_proved == is_proved
    assert found.status == (Status.DIFFER if findings else Status.AGREE)
    assert bool(found.trains_otherwise) == (is_proved and bool(findings))
    assert found.sentence.startswith("The mapping is proved in float64: 2 outputs.") == is_proved
    assert ("But the models differ in training, in 1 buffer." in found.sentence) == (findings == ("buffers",))


@pytest.mark.parametrize(
    ("findings", "mode", "is_beside"),
    [
        (("forward", "backward"), "training", True),
        (("input gradient",), "evaluation", True),
        (("forward",), "evaluation", False),
        (("backward", "input gradient"), "evaluation", False),
    ],
)
def test_what_differs_beside_a_right_mapping_is_a_difference_and_said_so(
    findings: tuple[str, ...], mode: str, is_beside: bool
) -> None:
    found = match(findings=findings, mode=mode)
    assert not found and found.status == Status.DIFFER
    assert found.differs_beside == is_beside == found.sentence.startswith("The mapping is right")


def test_what_cannot_be_judged_is_not_proved() -> None:
    assert not match(unjudged=("an output",)) and not match(findings=None)
    assert match(findings=None).status == Status.CANNOT_JUDGE


def test_what_is_open_says_how_to_decide_it() -> None:
    candidate = Candidate(("left.weight",), ("Dense_0.kernel",), renaming_to("left.0", "Dense_0"))
    how = Candidate(("w",), ("v",), how="as it is")
    found = match(
        Row((), ("Dense_0.kernel",), "open", "why", (candidate,)),
        Row(("w",), ("v",), "open", "", (how,)),
        findings=None,
    )
    assert len(found.open) == 2 and found.status == Status.CANNOT_JUDGE
    assert found.advice[0] == r"--rename '^left\.0\b=Dense_0'" and "[[rule]]" in found.advice[1]
    assert "could be left.weight → Dense_0.kernel" in str(found) and "(as it is)" in str(found)
