"""The other numbers of a record."""

from __future__ import annotations

from port.records import Recorder
from port.report.page.panels import panels
from port.report.page.subject import subject_of
from port.report.page.tables import table_of_number
from port.training import judge

from .conftest import falling


def test_there_is_a_panel_for_each_number_that_both_recorded(make_outcome):
    found = panels(subject_of(make_outcome(falling(20), falling(20))))
    assert [(p.name, p.where, p.only_counts) for p in found] == [
        ("epoch", "step", True),
        ("learning rate", "step", False),
        ("gradient norm", "step", False),
        ("accuracy", "evaluation", False),
    ]
    assert found[2].curves.sides[0] == [loss / 3 for loss in falling(20)]


def test_words_and_numbers_of_one_side_alone_have_none(tmp_path):
    for side, more in (("torch", {"only": 1.0}), ("jax", {"yes": True})):
        with Recorder(tmp_path / f"{side}.jsonl", side=side, precision="float64") as record:
            for step in range(3):
                record(step, loss=1.0, lr=float("inf") if step == 1 else 0.1, **more)
    found = panels(subject_of(judge("float64", tmp_path / "torch.jsonl", tmp_path / "jax.jsonl")))
    assert [panel.name for panel in found] == ["learning rate"]
    assert found[0].curves.sides[0] == [0.1, None, 0.1]


def test_its_table_says_where_it_is_furthest_apart(make_outcome):
    subject = subject_of(make_outcome(falling(20), falling(20, parted=12)))
    rate, norm = panels(subject)[1:3]
    assert table_of_number(subject, rate).rows == [["equal at every step; the last, step 19", "0.05", "0.05", "0"]]
    largest, last = table_of_number(subject, norm).rows
    assert largest[0].startswith("largest difference, step 1")
    assert last[1:3] == [repr(falling(20)[19] / 3), repr(falling(20, parted=12)[19] / 3)]
