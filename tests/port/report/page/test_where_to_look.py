"""The notes that a run touches."""

from __future__ import annotations

import torch

from port.pairs.notes import note
from port.records import layer_names
from port.report.page.subject import subject_of
from port.report.page.where_to_look import layers_are_known, notes_of

from .conftest import falling


def ids(subject, config=None):
    return {touched.note.id: touched.because for touched in notes_of([subject], config or {})}


def test_layers_loss_and_optimizer_bring_their_notes(make_outcome):
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.GELU())
    about = {"layers": layer_names(model), "criterion": "torch.nn.CrossEntropyLoss", "config": {"optimizer": "sgd"}}
    found = ids(subject_of(make_outcome(falling(5), falling(5), **about)))
    assert found["W2"] == ["Conv2d"]
    assert found["W7"] == ["BatchNorm2d"]
    assert found["W12"] == ["GELU"]
    assert found["G1"] == ["CrossEntropyLoss"]
    assert found["O1"] == ["sgd"]
    assert "W5" not in found  # transposed convolutions
    assert all(note(id).remedy for id in found)


def test_a_script_of_ones_own_names_its_optimizers_class(make_outcome):
    assert "O4" in ids(subject_of(make_outcome(falling(5), falling(5), optimizer="torch.optim.AdamW")))


def test_an_older_record_has_the_notes_of_its_config(make_outcome):
    subject = subject_of(make_outcome(falling(5), falling(5)))
    assert not layers_are_known([subject])
    found = ids(subject, {"optimizer": "rmsprop", "devices": 4, "accumulate": 2})
    assert "O5" in found
    assert {"D5", "A1", "P2"} <= set(found)
    assert not [id for id in found if id.startswith("W")]


def test_what_is_no_name_touches_nothing(make_outcome):
    about = {"layers": [3, "<script>", None], "criterion": {}, "optimizer": "adam\x1b[31m"}
    assert set(ids(subject_of(make_outcome(falling(5), falling(5), **about)))) == {"P2"}
