"""Mapping files: read back as they were written, whatever the names; refused with the file and the entry."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from port.errors import BrokenWeights, PortError, UsageError
from port.mapping import TORCH_ONLY, Entry, Mapping, Rules, read_mapping, save_mapping
from port.moves import Branch, Copy, EachBranch, Flip, Fold, Join, Order, Permute, Reshape, Split, Stack, Sum, Tie

LOOSE = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
NAME = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.text(
    "\"'\\\n\r\t\x00\x7f\x85\u2028 .#[]=", max_size=6
)
MOVES = st.sampled_from(
    [
        (),
        (Permute((1, 0)), Flip((0,))),
        (Reshape((4, 2), (2, 2, 2)), Fold(0, (1, 2), (1, 0))),
        (Tie(2), Copy(3), Order((2, 0, 1)), Sum(3)),
        (EachBranch((Branch(1, (Split(0, (1, 3)), Join(0, (1, 3))), 1), Branch(1, (), 1))), Stack(1, 2)),
    ]
)
SHAPES = st.none() | st.just("of the sources")


@st.composite
def mappings(draw: st.DrawFn) -> Mapping:
    names = draw(st.lists(st.lists(NAME, min_size=1, max_size=3), max_size=4))
    entries = []
    for place, group in enumerate(names):
        sources = tuple(f"{place}.{at}.{name}" for at, name in enumerate(group))
        targets = tuple(f"t{place}.{at}.{name}" for at, name in enumerate(group))
        # Shapes are only there for moves that take them.
        bare = draw(st.booleans())
        entries.append(
            Entry(
                sources,
                targets,
                () if bare else draw(MOVES),
                draw(st.sampled_from(["params", "batch_stats", TORCH_ONLY]) | NAME),
                tuple((at, 3) for at in range(len(sources))) if bare and draw(st.booleans()) else None,
                draw(st.booleans()),
            )
        )
    return Mapping(tuple(entries))


@LOOSE
@given(mapping=mappings())
def test_it_is_read_back_as_it_was(mapping, tmp_path):
    save_mapping(mapping, tmp_path / "m.toml")
    assert read_mapping(tmp_path / "m.toml") == mapping


def test_what_is_changed_in_the_file_is_changed_when_it_is_read(tmp_path):
    """The planted fault: another axis in the text."""
    mapping = Mapping((Entry(("a",), ("b",), (Permute((2, 0, 1)),)),))
    save_mapping(mapping, tmp_path / "m.toml")
    text = (tmp_path / "m.toml").read_text()
    (tmp_path / "m.toml").write_text(text.replace("[2, 0, 1]", "[1, 2, 0]"))
    assert read_mapping(tmp_path / "m.toml") == Mapping((Entry(("a",), ("b",), (Permute((1, 2, 0)),)),))


def test_what_keeps_its_value_is_read_back(tmp_path):
    mapping = Mapping((Entry(("a",), ("b",)),), ("mask.embedding",))
    save_mapping(mapping, tmp_path / "m.toml")
    assert read_mapping(tmp_path / "m.toml") == mapping
    (tmp_path / "m.toml").write_text("keep = ['mask.embedding']")
    assert read_mapping(tmp_path / "m.toml") == Rules(keep=("mask.embedding",))


def test_a_person_can_read_it(tmp_path):
    entry = Entry(("fc.weight",), ("fc.kernel",), (Permute((1, 0)),), "params", ((3, 2),))
    save_mapping(Mapping((entry, Entry(("n",), ("n",), collection=TORCH_ONLY, optional=True))), tmp_path / "m.toml")
    assert (tmp_path / "m.toml").read_text() == (
        '[[entry]]\nsource = "fc.weight"\ntarget = "fc.kernel"\nmoves = [{ permute = [1, 0] }]\nshapes = [[3, 2]]\n'
        '\n[[entry]]\nsource = "n"\ntarget = "n"\ncollection = "torch_only"\noptional = true\n'
    )


def test_what_repeats_by_an_index_is_one_table(tmp_path):
    entries = [
        Entry((f"blocks.{i}.{name}",), (f"blocks.{i}.{twin}",), moves, "params", ((3,) * rank,))
        for i in range(4)
        for name, twin, moves, rank in (("weight", "kernel", (Permute((1, 0)),), 2), ("bias", "bias", (), 1))
    ]
    mapping = Mapping((*entries, Entry(("head.0", "head.2"), ("head",), (Tie(2),))))
    save_mapping(mapping, tmp_path / "m.toml")
    text = (tmp_path / "m.toml").read_text()
    assert text.startswith(
        '[[entry]]\nsource = "blocks.{i}.weight"\ntarget = "blocks.{i}.kernel"\neach = { i = 4 }\n'
        "moves = [{ permute = [1, 0] }]\nshapes = [[3, 3]]\n"
    )
    assert text.count("[[entry]]") == 3
    assert read_mapping(tmp_path / "m.toml") == mapping
    # The planted faults: one round less, and one number twice.
    (tmp_path / "m.toml").write_text(text.replace("i = 4", "i = [0, 1, 3]"))
    assert read_mapping(tmp_path / "m.toml") == Mapping((*entries[:4], *entries[6:], mapping.entries[-1]))
    (tmp_path / "m.toml").write_text(text.replace("i = 4", "i = [0, 1, 1]"))
    with pytest.raises(UsageError, match=r"twice: source blocks\.1\.weight, source blocks\.1\.bias, target"):
        read_mapping(tmp_path / "m.toml")


def test_the_unrolled_form_is_read_also_with_braces_in_its_names(tmp_path):
    text = "".join(f"[[entry]]\nsource = 'a.{i}.{{i}}'\ntarget = 'b.{i}'\n" for i in range(3))
    (tmp_path / "m.toml").write_text(text)
    mapping = Mapping(tuple(Entry((f"a.{i}.{{i}}",), (f"b.{i}",)) for i in range(3)))
    assert read_mapping(tmp_path / "m.toml") == mapping
    save_mapping(mapping, tmp_path / "again.toml")
    assert read_mapping(tmp_path / "again.toml") == mapping


def test_it_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "deep" / "m.toml"
    save_mapping(Mapping((Entry(("a",), ("b",)),)), path)
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(BrokenWeights, match="No space left"):
        save_mapping(Mapping((Entry(("c",), ("d",)),)), path)
    assert path.read_bytes() == before
    assert [found.name for found in path.parent.iterdir()] == ["m.toml"]


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BrokenWeights, match=re.escape(str(tmp_path / "file" / "m.toml"))):
        save_mapping(Mapping(()), tmp_path / "file" / "m.toml")
    with pytest.raises(BrokenWeights, match="half a character"):
        save_mapping(Mapping((Entry(("\ud800",), ("b",)),)), tmp_path / "m.toml")
    assert sorted(found.name for found in tmp_path.iterdir()) == ["file"]


@LOOSE
@given(garbage=st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_garbage_is_refused_by_the_file_s_name(garbage, tmp_path):
    (tmp_path / "m.toml").write_bytes(garbage)
    try:
        read_mapping(tmp_path / "m.toml")
    except UsageError as error:
        assert str(tmp_path / "m.toml") in str(error)


VALUES = st.recursive(
    st.integers(-2, 3) | st.booleans() | st.floats(allow_nan=False) | st.sampled_from(["a", "(", "\\9", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["permute", "split", "each", "axis", "from", "source", "a"]), inner, max_size=2
        )
    ),
    max_leaves=6,
)
TABLES = st.dictionaries(
    st.sampled_from(["source", "target", "moves", "shapes", "collection", "optional", "from", "to"]), VALUES
)


@LOOSE
@given(kind=st.sampled_from(["entry", "rule", "rename", "fold"]), tables=st.lists(TABLES, max_size=2) | VALUES | TABLES)
def test_tables_that_make_no_sense_are_refused_by_the_file_s_name(kind, tables, tmp_path, monkeypatch):
    monkeypatch.setattr(tomllib, "loads", lambda text: {kind: tables})
    (tmp_path / "m.toml").write_text("")
    try:
        found = read_mapping(tmp_path / "m.toml")
        assert isinstance(found, Mapping | Rules)
    except UsageError as error:
        assert str(tmp_path / "m.toml") in str(error)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("entry = 3", "each under [[entry]]"),
        ("entry = ['a']", "entry 1: an entry is a table"),
        ("[[entry]]\nsource = 'a'", "entry 1: target is missing"),
        (
            "[[entry]]\nsource = 'a'\ntarget = 'b'\n[[entry]]\nsource = 3\ntarget = 'b'",
            "entry 2: source and target are",
        ),
        ("[[entry]]\nsource = []\ntarget = 'b'", "entry 1: source and target are"),
        (
            "[[entry]]\nsource = 'a'\ntarget = 'b'\nmove = 1",
            "entry 1: unknown key move; there are source, target, each, over, moves",
        ),
        ("[[entry]]\nsource = 'a'\ntarget = 'b'\nmoves = [{permut = [1, 0]}]", "entry 1: unknown move 'permut'"),
        ("[[entry]]\nsource = 'a'\ntarget = 'b'\nmoves = {permute = [1, 0]}", "entry 1: moves are a list"),
        ("[[entry]]\nsource = 'a'\ntarget = 'b'\nmoves = [{split = 2}]", "entry 1: the move split = 2 cannot be read"),
        ("[[entry]]\nsource = 'a'\ntarget = 'b'\nshapes = [3]", "entry 1: shapes are lists of sizes"),
        ("[[entry]]\nsource = 'a'\ntarget = 'b'\nshapes = [[1.5]]", "entry 1: shapes are lists of sizes"),
        ("[[entry]]\nsource = 'a'\ntarget = 'b'\nshapes = [[1], [2]]", "entry 1: 1 sources need 1 shapes, got 2"),
        ("[[entry]]\nsource = 'a'\ntarget = 'b'\nshapes=[[4]]\nmoves=[{split=2}]", "return 2 arrays for 1 targets"),
        ("[[entry]]\nsource = 'a'\ntarget = 'b'\nshapes=[[4]]\nmoves=[{permute=[1, 0]}]", "needs an array of 2 axes"),
        (
            "[[entry]]\nsource = 'a'\ntarget = 'b'\noptional = 'no'",
            "entry 1: collection is a name, optional is true or",
        ),
        ("[[entry]]\nsource = 'a'\ntarget = 'b'\n[[entry]]\nsource = 'c'\ntarget = 'b'", "twice: target b"),
        (
            "[[entry]]\nsource = 'a.{i}'\ntarget = 'b.{i}'\neach = 3",
            "entry 1: each is a letter of the names and its count",
        ),
        (
            "[[entry]]\nsource = 'a.{i}'\ntarget = 'b.{i}'\neach = {i = 0}",
            "entry 1: each: i is a count, from 0 up to it",
        ),
        ("[[entry]]\nsource = 'a.{i}'\ntarget = 'b.{i}'\neach = {i = [-1]}", "entry 1: each: i is a count, from 0"),
        ("[[entry]]\nsource = 'a.{i}'\ntarget = 'b'\neach = {i = 2}", "twice: target b"),
        ("[[entry]]\nsource = 'a'\ntarget = 'b'\neach = {i = 1}", "a, b: {i} is in none of its names"),
        ("[[entry]]\nsource = 'a.{i}'\ntarget = 'b.{i}'\neach = {i = 1000000000}", "i is a count, from 0 up to it"),
        ("[[entry]]\nsource = 'a'\ntarget = 'b'\n[fold]\nfc = [1, 2, 3]", "cannot be combined with fold"),
        ("[renam]\na = 1", "unknown renam; there are rename, fold, rule, keep, and entry"),
        ("[[rename]]\nfrom = 'a'", "rename 1: to is missing"),
        ("[[rename]]\nfrom = '('\nto = 'a'", "rename 1: missing )"),
        ("[rename]\na = 'b'", "each rename is a table of its own, under [[rename]]"),
        ("[[rule]]\nsource = '('\ntarget = 'a'", "rule 1: missing )"),
        ("[[rule]]\nsource = 'a'\ntarget = 'a'\n[[rule]]\ntarget = 'a'", "rule 2: source is missing"),
        ("[[rule]]\nsource = 'a'\ntarget = 'a'\nmoves = 3", "rule 1: moves are a list"),
        ("[fold]\nfc = 3", "fold: use layer = [channels, height, width]"),
        ("keep = 'a'", "keep is a list of Flax's paths"),
        ("keep = [3]\n[[entry]]\nsource = 'a'\ntarget = 'b'", "keep is a list of Flax's paths"),
        ("x = " + "[" * 3000, "is not TOML"),
        ("a = 1\na = 2", "is not TOML"),
    ],
)
def test_a_mistake_is_named_with_its_place(text, message, tmp_path):
    path = tmp_path / "m.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=re.escape(message)) as caught:
        read_mapping(path)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(PortError, match=re.escape(str(path))):
            read_mapping(path)


def test_what_is_no_file_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BrokenWeights, match="pipe: it is no file"):
        save_mapping(Mapping(()), tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()


def test_an_empty_mapping_is_no_empty_set_of_rules(tmp_path):
    save_mapping(Mapping(()), tmp_path / "m.toml")
    assert read_mapping(tmp_path / "m.toml") == Mapping(())
    Path(tmp_path / "m.toml").write_text("")
    assert read_mapping(tmp_path / "m.toml") == Rules()


def test_moves_by_hand_are_completed_from_the_shapes_of_the_entry(tmp_path):
    (tmp_path / "m.toml").write_text(
        "[[entry]]\nsource = 'qkv'\ntarget = ['q', 'k', 'v']\nshapes = [[12, 6]]\n"
        "moves = [{split = 3}, {permute = [1, 0]}, {reshape = [6, 2, -1]}]\n"
    )
    mapping = read_mapping(tmp_path / "m.toml")
    assert isinstance(mapping, Mapping)
    assert mapping.entries[0].moves == (Split(0, (4, 4, 4)), Permute((1, 0)), Reshape((6, 4), (6, 2, 2)))
