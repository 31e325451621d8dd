"""Thinning keeps what a picture must not lose."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from port.report.page.thinning import kept

VALUES = st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False, width=32))
COLUMNS = st.integers(1, 120).flatmap(
    lambda length: st.lists(st.lists(VALUES, min_size=length, max_size=length), min_size=1, max_size=3)
)


@settings(max_examples=40, deadline=None)
@given(COLUMNS, st.integers(9, 60), st.data())
def test_extremes_ends_gaps_and_what_is_named_stay(columns, most, data):
    length = len(columns[0])
    always = data.draw(st.sets(st.integers(0, length - 1), max_size=3))
    places = kept(columns, most, always)
    assert places == sorted(set(places))
    assert {0, length - 1} | always <= set(places)
    assert len(places) <= most + len(always) + 2
    for column in columns:
        there = [value for value in column if value is not None]
        drawn = [column[place] for place in places if column[place] is not None]
        if there:
            assert (min(there), max(there)) == (min(drawn), max(drawn))
        assert (None in column) == (None in [column[place] for place in places])


def test_every_stretch_keeps_its_own_peak():
    column = [float(step % 100 == 57) for step in range(10_000)]
    places = kept([column], 300)
    assert set(range(57, 10_000, 100)) <= set(places)
    assert len(places) <= 302


def test_a_short_curve_is_left_alone():
    assert kept([[1.0, 1.0, 1.0]], 3) == [0, 1, 2]
    assert kept([], 3) == []
