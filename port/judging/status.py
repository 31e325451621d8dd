"""The three outcomes of a comparison, each with its exit code."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Status(StrEnum):
    """The outcome of a comparison. Only ``AGREE`` means that the two sides were shown to be the same.

    ``CANNOT_JUDGE`` says nothing about the two: the comparison did not fit into memory, there is nothing to compare,
    or the original itself strays as far when its numbers are perturbed in their last places.
    """

    AGREE = "agree"
    DIFFER = "differ"
    CANNOT_JUDGE = "cannot be judged"

    @property
    def exit_code(self) -> int:
        """The exit code of a command with this outcome. 2 is bad usage, and 3 a trainer that died."""
        return {Status.AGREE: 0, Status.DIFFER: 1, Status.CANNOT_JUDGE: 4}[self]


def worst(statuses: Iterable[Status]) -> Status:
    """The status of several comparisons together; with none, nothing can be judged."""
    found = set(statuses)
    if Status.DIFFER in found:
        return Status.DIFFER
    return Status.AGREE if found == {Status.AGREE} else Status.CANNOT_JUDGE
