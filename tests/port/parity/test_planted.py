"""Every planted fault's layer and cause are named, and nothing is said of right models: see `faults`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from port.pairs.notes import NOTES, Note

from .faults.fault import Fault, Twin, outcome
from .faults.planted import FAULTS, TWINS

_SHORT = (
    "MLP: tanh GELU",
    "MLP: epsilon",
    "MLP: kernel transposed as it is loaded",
    "MLP: scale missing",
    "MLP, Linen: tanh GELU",
)
"""Some of the model that is quickest to run: of weights, of options, of the model's own code."""


_AMBIGUOUS = {"bias-missing"}
"""Named by the notes of recurrent layers, and of others that no note speaks of."""


def _named(fault: Fault) -> None:
    found = outcome(fault)
    assert found.is_layer_named, str(found.report)
    assert found.named, str(found.report)
    assert not found.false, str(found.report)
    assert all(str(cause) in str(found.report) for cause in found.report.causes)
    for cause in found.report.causes:
        naming = [note.id for note in NOTES if cause.kind in note.causes]
        if naming and cause.kind not in _AMBIGUOUS:
            assert cause.note in naming
        assert not cause.note or cause.note in naming
        assert cause.remedy


@pytest.mark.thin(3)
@pytest.mark.parametrize("fault", [fault for fault in FAULTS if str(fault) in _SHORT], ids=str)
def test_the_layer_and_the_cause_are_named(fault: Fault) -> None:
    _named(fault)


@pytest.mark.sweep
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_every_layer_and_cause_are_named(fault: Fault) -> None:
    _named(fault)


@pytest.mark.sweep
@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.name)
def test_nothing_is_said_of_right_models(twin: Twin) -> None:
    report = twin.check({})
    assert report, str(report)
    assert report.causes == ()


def unplanted(notes: Sequence[Note]) -> list[str]:
    """The kinds of causes that notes name and that no fault is planted for, with the note."""
    planted = {kind for fault in FAULTS for kind in fault.causes}
    return [f"{note.id}: {kind}" for note in notes for kind in note.causes if kind not in planted]


def test_every_cause_that_a_note_names_is_planted() -> None:
    assert unplanted(NOTES) == []
    new = replace(NOTES[0], causes=("kernel-transposed", "upside-down"))
    assert unplanted([new]) == [f"{NOTES[0].id}: upside-down"]


@pytest.mark.sweep
def test_so_many_kinds_in_so_many_models() -> None:
    assert len({fault.kind for fault in FAULTS}) >= 100
    assert len({fault.twin.name for fault in FAULTS}) >= 13
    assert len({str(fault) for fault in FAULTS}) == len(FAULTS)
