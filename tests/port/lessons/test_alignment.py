"""Two sources beside each other: no line lost, none twice, order kept, whatever they hold; twins are opposite."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import port.lessons.alignment
from port.lessons import Alignment, Kind, align, source_of
from port.lessons.pairing import pair_lines

TORCH = '''"""A net in PyTorch."""
import torch
from torch import nn

# %% The model


class Net(nn.Module):
    """Two layers."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(3, 1)

    def extra(self):
        self.cache = {}
        return torch.zeros(3).requires_grad_()

    def forward(self, x):
        return self.out(x)


# %% The run
@torch.no_grad()
def evaluate(model, x):
    return model(x).sum()
'''
JAX = '''"""A net in JAX."""
import jax
from flax import nnx

# %% The model


class Net(nnx.Module):
    """Two layers."""

    def __init__(self, rngs):
        self.out = nnx.Linear(3, 1, rngs=rngs)

    def __call__(self, x):
        return self.out(x)


class State:
    step: int


# %% The run
# Compiled once.
@jax.jit
def evaluate(model, x):
    return model(x).sum()
'''
LINES = ["", "x = 1", "y = x + 1", "# a comment", "\t", "'''", "@decorated", "if x:", "    y = 2", ")", "\f"]
DEFINITIONS = [
    "def f(x):\n    return x",
    "def g(a,\n      b):\n    # why\n    return a + b",
    "# above\n@decorated\nasync def h(): pass",
    "class C:\n    # about m\n    def m(self): pass\n\n    @property\n    def forward(self):\n        return 1",
    "class D:\n    def __call__(self):\n        return 2\n    class E:\n        def m(self): ...",
    "# %% One",
    "# %% Two",
]
ODD = [
    "class C:\n    def __call__(self):\n        return 2",
    "if True:\n    def f(x):\n        return 0\nelse:\n    def f(x):\n        return 1",
    'x = """\n# %% One\n# not above f"""\ndef f(): pass',
    "def f():\n    x = 1\n# %% One\n    return x",
    "try:\n    import a\nexcept E:\n    def g(): ...",
]
python = st.lists(st.sampled_from([*LINES[:4], *DEFINITIONS, *ODD]), max_size=12).map("\n".join)
sources = st.one_of(
    python,
    st.lists(st.sampled_from([*LINES, *DEFINITIONS, *ODD]), max_size=12).map("\n".join),
    st.lists(st.one_of(st.sampled_from(DEFINITIONS), st.text(max_size=8)), max_size=12).map("\n".join),
    st.text(max_size=60),
)


def aligned(left: str, right: str) -> Alignment:
    return align(source_of(left, "left.py"), source_of(right, "right.py"))


def opposite(alignment: Alignment) -> dict[str, str]:
    return {row.left.text: row.right.text for row in alignment.rows if row.left and row.right}


@given(sources, sources)
def test_no_line_is_lost_none_twice_and_the_order_is_kept(whole, left, right):
    whole(aligned(left, right))


@given(python, python)
def test_no_line_of_python_is_lost(whole, left, right):
    alignment = aligned(left, right)
    whole(alignment)
    assert not [remark for remark in alignment.remarks if "parse" in remark]


@example("\x00")
@given(sources)
def test_a_source_beside_itself_is_equal_in_every_row(text):
    alignment = aligned(text, text)
    assert all(row.kind is Kind.EQUAL for row in alignment.rows)
    assert alignment.share_opposite() == 1


@given(st.permutations(range(6)), st.permutations(range(6)))
def test_moved_definitions_do_not_cross(whole, left, right):
    alignment = aligned(*("\n\n".join(f"def f{n}():\n    return {n}" for n in order) for order in (left, right)))
    whole(alignment)
    heads = [row for row in alignment.rows if row.left and row.right and row.left.text.startswith("def")]
    assert [row.left.text for row in heads if row.kind is Kind.EQUAL], "one of them at least has its twin"


@given(st.lists(st.sampled_from(DEFINITIONS), unique=True), st.randoms(use_true_random=False))
def test_twins_stand_opposite_whatever_is_around_them(whole, parted, definitions, randomly):
    def among_others(side: str) -> str:
        others = [randomly.choice(["", "x = 1", "# a comment", f"def only_{side}(): pass"]) for _ in definitions]
        return "\n".join(line for pair in zip(others, definitions, strict=True) for line in pair)

    alignment = aligned(among_others("left"), among_others("right"))
    whole(alignment)
    assert parted(alignment) == []


def test_definitions_and_titles_stand_opposite_their_twins(whole, parted):
    alignment = aligned(TORCH, JAX)
    whole(alignment)
    assert parted(alignment) == []
    twins = opposite(alignment)
    assert twins["    def forward(self, x):"] == "    def __call__(self, x):"
    assert twins["# %% The run"] == "# %% The run"
    assert twins["        self.out = nn.Linear(3, 1)"] == "        self.out = nnx.Linear(3, 1, rngs=rngs)"
    assert alignment.remarks == ()


def test_what_one_side_has_alone_stands_alone():
    alignment = aligned(TORCH, JAX)
    alone = {line.text for row in alignment.rows if None in row for line in row if line}
    assert {
        *("        super().__init__()", "    def extra(self):", "        self.cache = {}"),
        *("        return torch.zeros(3).requires_grad_()", "class State:", "    step: int", "# Compiled once."),
    } <= alone


def test_a_few_lines_that_are_alike_bind_no_two_definitions():
    left = (
        "def clip(model, norm):\n    total = 0\n    for p in model.parameters():\n        p *= norm\n    return total\n"
    )
    right = (
        "def load(model, path):\n    state = read(path)\n    check(state)\n    update(model, state)\n    return total\n"
    )
    assert opposite(aligned(left, right)) == {}


def test_a_definition_that_was_renamed_stands_opposite_by_its_lines():
    twins = opposite(aligned(TORCH.replace("Net", "TorchNet"), JAX.replace("Net", "JaxNet")))
    assert twins["class TorchNet(nn.Module):"] == "class JaxNet(nnx.Module):"
    assert twins["    def forward(self, x):"] == "    def __call__(self, x):"


def test_of_two_definitions_of_one_name_each_has_its_own_twin():
    left = "class C:\n    @property\n    def x(self): return 1\n    @x.setter\n    def x(self, to): pass\n"
    right = left.replace("return 1", "return one(self)")
    alignment = aligned(left, right)
    assert [row.kind for row in alignment.rows] == [Kind.EQUAL, Kind.EQUAL, Kind.CHANGED, Kind.EQUAL, Kind.EQUAL]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("def f(:\n    pass\n", "invalid syntax, line 1"),
        ("x = " + "-" * 100_000 + "1\n", "nested too deeply"),
        ("x = 'a\n", "unterminated string literal (detected at line 1), line 1"),
    ],
)
def test_a_source_that_does_not_parse_is_aligned_by_lines_and_says_so(whole, text, why):
    alignment = aligned(text + "def g():\n    return 1\n", "def g():\n    return 1\n")
    whole(alignment)
    assert alignment.remarks == (f"left.py does not parse ({why}): aligned by lines alone",)
    assert opposite(alignment)["def g():"] == "def g():"


def test_warnings_about_a_source_are_not_its_readers(recwarn):
    assert aligned(r"x = '\d'", r"x = '\d' is 1").remarks == ()
    assert not recwarn.list


def test_empty_sources():
    assert aligned("", "").rows == ()
    alignment = aligned("", "x = 1\n\n")
    assert [row.kind for row in alignment.rows] == [Kind.ONLY_RIGHT] * 2
    assert alignment.remarks == ("left.py is empty",)
    assert alignment.share_opposite() == 0


def test_long_sources_without_one_definition_are_aligned_too(whole):
    randomly = random.Random(0)
    left = [f"x{randomly.randrange(3000)} = {n}" for n in range(3000)]
    right = [line if randomly.random() < 0.7 else f"y = {randomly.random()}" for line in left]
    alignment = aligned("\n".join(left), "\n".join(right))
    whole(alignment)
    equal = sum(row.kind is Kind.EQUAL for row in alignment.rows)
    assert equal >= sum(a == b for a, b in zip(left, right, strict=True))
    whole(aligned("\n".join(left), "\n".join(reversed(right))))
    whole(aligned("x\n" * 3000, "x\ny\n" * 2000))


# What these tests are for: faults in the aligner, and whether they are seen.


@pytest.mark.parametrize("place", range(len(aligned(TORCH, JAX).rows)))
def test_a_dropped_a_doubled_and_a_torn_row_are_seen(whole, place):
    alignment = aligned(TORCH, JAX)
    rows = list(alignment.rows)
    faults = [rows[:place] + rows[place + 1 :], [*rows[: place + 1], *rows[place:]]]
    if place:
        faults.append([*rows[: place - 1], rows[place], rows[place - 1], *rows[place + 1 :]])
        if Kind.ONLY_LEFT in (rows[place - 1].kind, rows[place].kind) and rows[place - 1].left != rows[place].left:
            sides = {rows[place - 1].kind, rows[place].kind}
            if sides == {Kind.ONLY_LEFT, Kind.ONLY_RIGHT}:
                faults.pop()  # one on the left and one on the right alone: either may be first
    for fault in faults:
        with pytest.raises(AssertionError):
            whole(replace(alignment, rows=tuple(fault)))


def test_an_aligner_that_drops_a_line_is_seen(whole, monkeypatch):
    rows = port.lessons.alignment._rows

    def dropping(left, right, stretch):
        return [row for row in rows(left, right, stretch) if not row.left or row.left.number != 9]

    monkeypatch.setattr(port.lessons.alignment, "_rows", dropping)
    with pytest.raises(AssertionError):
        whole(aligned(TORCH, JAX))


def test_an_aligner_that_pairs_lines_out_of_order_is_seen(whole, monkeypatch):
    def crossing(left, right):
        pairs = pair_lines(left, right)
        return [(i, j) for (i, _), (_, j) in zip(pairs, reversed(pairs), strict=True)]

    monkeypatch.setattr(port.lessons.alignment, "pair_lines", crossing)
    with pytest.raises(AssertionError):
        whole(aligned(TORCH, JAX))


def test_anchors_that_cross_are_seen(whole, monkeypatch):
    def by_name_alone(left, right):
        return [(ours, theirs) for ours in left for theirs in right if ours.name == theirs.name]

    monkeypatch.setattr(port.lessons.alignment, "matched", by_name_alone)
    whole(aligned(TORCH, JAX))  # nothing has moved
    head, run = JAX.split("# %% The run")
    with pytest.raises(AssertionError):
        whole(aligned(TORCH, f"# %% The run{run}{head}"))


def test_an_aligner_without_anchors_is_seen(parted, monkeypatch):
    monkeypatch.setattr(port.lessons.alignment, "matched", lambda left, right: [])
    left = "def f(x):\n    return x\n\ndef g(y):\n    return y\n"
    assert parted(aligned(left, "def f(y, *a):\n    yield\n\ndef g(x):\n    return x\n")) == ["f", "g"]


def test_definitions_in_another_order_are_seen(parted):
    head, run = JAX.split("# %% The run")
    assert parted(aligned(TORCH, f"# %% The run{run}{head}")) == [
        "# %% The model",
        "Net",
        "Net.__call__",
        "Net.__init__",
    ]
