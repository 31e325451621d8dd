"""How many rates are written out, where a schedule is a function of the script's own."""

from __future__ import annotations

import pytest

from port.errors import StepsNeeded, UsageError
from port.scripts.writing.optimizing import steps_needed


def needs() -> str:
    raise StepsNeeded("this LambdaLR has no formula, so its rates must be tabulated", "give steps=, their number")


def test_as_many_as_the_scripts_loops_make() -> None:
    assert steps_needed(lambda: "optimizer = …", 400, 2, None) == {}
    assert steps_needed(needs, 400, 2, None) == {"steps": 201}
    assert steps_needed(needs, 400, 2, 20) == {"steps": 11}


@pytest.mark.parametrize(
    ("planned", "words"),
    [
        (None, "must be tabulated: and how many updates the script makes is not seen"),
        (10**6, "must be tabulated, and those of 500001 steps are no source"),
    ],
)
def test_not_known_or_too_many(planned: int | None, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        steps_needed(needs, planned, 2, None)


def test_another_reason_stays() -> None:
    def fails() -> str:
        raise UsageError("no class that is known")

    with pytest.raises(UsageError, match="no class that is known"):
        steps_needed(fails, 400, 2, None)
