"""The three words and their exit codes."""

from __future__ import annotations

from port.judging import Status, worst


def test_each_word_has_its_exit_code() -> None:
    assert {str(status): status.exit_code for status in Status} == {"agree": 0, "differ": 1, "cannot be judged": 4}


def test_of_several_the_worst_counts() -> None:
    agree, differ, cannot = Status.AGREE, Status.DIFFER, Status.CANNOT_JUDGE
    assert worst([agree, agree]) is agree
    assert worst([agree, cannot]) is cannot
    assert worst([agree, cannot, differ]) is differ
    assert worst([]) is cannot, "nothing was compared"
