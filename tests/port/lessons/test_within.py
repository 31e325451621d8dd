"""What two lines say otherwise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from port.lessons import words_apart

LINES = st.text(st.sampled_from("ab_1 .,()[]=\t é"), max_size=40) | st.text(max_size=40)


def cut(line, spans):
    return [line[span.start : span.stop] for span in spans]


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("x = torch.relu(w @ x + b)", "x = jax.nn.relu(w @ x + b)", (["torch"], ["jax.nn"])),
        ("    return model(images)", "    return model(images, masks)", ([], [", masks"])),
        ("import torch", "import jax", (["torch"], ["jax"])),
        ("same", "same", ([], [])),
        ("nothing = shared()", "quite(another, line)", ([], [])),
        ("", "something", ([], [])),
    ],
)
def test_the_words_that_only_one_has(left, right, expected):
    ours, theirs = words_apart(left, right)
    assert (cut(left, ours), cut(right, theirs)) == expected


@given(LINES, LINES)
def test_what_is_not_marked_is_equal(left, right):
    spans = words_apart(left, right)
    for line, its in zip((left, right), spans, strict=True):
        places = [place for span in its for place in span]
        assert places == sorted(places)
        assert all(0 <= span.start < span.stop <= len(line) for span in its)
        assert all(text == text.strip() for text in cut(line, its))
    if any(spans):
        unmarked = [
            "".join(c for n, c in enumerate(line) if not any(s.start <= n < s.stop for s in its) and not c.isspace())
            for line, its in zip((left, right), spans, strict=True)
        ]
        assert unmarked[0] == unmarked[1]


def test_a_very_long_line_takes_no_time():
    assert words_apart("a " * 100_000, "b " * 100_000) == ((), ())
