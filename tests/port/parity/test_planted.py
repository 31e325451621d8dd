"""Every planted fault's layer and cause are named, and nothing is said of right models: see `faults`."""

from __future__ import annotations

import pytest

from .faults.fault import Fault, Twin, outcome
from .faults.planted import FAULTS, TWINS

_SHORT = ("MLP: tanh GELU", "MLP: epsilon", "MLP: kernel transposed as it is loaded", "MLP: scale missing")
"""Some of the model that is quickest to run: of weights, of options, of the model's own code."""


def _named(fault: Fault) -> None:
    found = outcome(fault)
    assert found.is_layer_named, str(found.report)
    assert found.named, str(found.report)
    assert not found.false, str(found.report)
    assert all(str(cause) in str(found.report) for cause in found.report.causes)


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


@pytest.mark.sweep
def test_so_many_kinds_in_so_many_models() -> None:
    assert len({fault.kind for fault in FAULTS}) >= 40
    assert len({fault.twin.name for fault in FAULTS}) >= 6
    assert len({str(fault) for fault in FAULTS}) == len(FAULTS)
