"""Fingerprints: they do not depend on the order of axes, and tell different numbers apart."""

from __future__ import annotations

import numpy as np

from port.matching.activations import EXACT, Activations, alike, fingerprint

from .chains import unit

VALUES = np.random.default_rng(0).normal(size=(2, 3, 4))


def test_a_fingerprint_does_not_depend_on_layout_or_padding() -> None:
    one = fingerprint(np, VALUES)
    assert alike(one, fingerprint(np, VALUES.transpose(2, 0, 1)), EXACT)
    assert alike(one, fingerprint(np, np.pad(VALUES, [(0, 0), (1, 2), (0, 0)])), EXACT)


def test_a_fingerprint_tells_numbers_apart() -> None:
    one = fingerprint(np, VALUES)
    for other in (VALUES * (1 + 1e-5), -VALUES, np.abs(VALUES), VALUES + 1e-5):
        assert not alike(one, fingerprint(np, other), EXACT)
    assert not alike(one, None, EXACT) and not alike(np.full(5, np.nan), np.full(5, np.nan), EXACT)


def test_positions_given_once_are_those_given_for_each_of_a_batch() -> None:
    once = np.arange(7)[None]
    assert alike(fingerprint(np, once), fingerprint(np, np.repeat(once, 3, 0)), EXACT)
    assert not alike(fingerprint(np, once), fingerprint(np, once + 1), EXACT)


def test_what_is_not_seen_has_no_print_and_comes_last() -> None:
    shown = Activations({"a": VALUES}, {}, {"a": 0, "b": 1})
    assert shown.input(unit("a", weight=(1,))) is VALUES and shown.output(unit("a", weight=(1,))) is None
    assert [shown.place(unit(path, weight=(1,))) for path in "abc"] == [0, 1, 2]
