"""A proof's text and its verdict."""

from __future__ import annotations

from port.translation.verify import Compared, Proof


def test_a_row_says_what_was_compared_and_where_it_differs() -> None:
    row = Compared("outputs in training", 3e-12, 1e-9, "output 0", 2)
    assert row.agrees and str(row) == "outputs in training: 3.0e-12 ≤ 1e-09 (2 tensors)"
    apart = Compared("outputs in training", 0.5, 1e-9, "output 1", 2)
    assert not apart.agrees and str(apart) == "outputs in training: 5.0e-01 > 1e-09 (2 tensors) at output 1"
    assert not Compared("outputs", float("nan"), 1e-9, "", 1).agrees
    assert not Compared("outputs", float("inf"), 1e-9, "", 1).agrees


def test_a_proof_agrees_if_all_its_rows_do_and_it_ran() -> None:
    good, bad = Compared("a", 0.0, 1e-9, "", 1), Compared("b", 1.0, 1e-9, "x", 1)
    assert Proof((good,)).agrees
    assert not Proof((good, bad)).agrees
    assert not Proof(()).agrees, "nothing was compared"
    assert not Proof((good,), failed="the written module does not run").agrees
    assert str(Proof((good, bad), "float32")).splitlines()[0] == "float32: both sides DIFFER"


def test_remarks_are_printed() -> None:
    assert (
        str(Proof((), remarks=("dropout was off inside lstm",))).splitlines()[-1].strip()
        == "dropout was off inside lstm"
    )
