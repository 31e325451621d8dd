"""Names that count an index, as one pattern; the file of a stack's mapping says them so."""

from __future__ import annotations

from pathlib import Path

import pytest

from port.errors import UsageError
from port.mapping import Entry, Mapping, read_mapping, save_mapping
from port.mapping.gathered import gathered
from port.moves import Branch, EachBranch, Join, Permute, Stack, Tie


@pytest.mark.parametrize(
    ("names", "patterns", "numbers"),
    [
        (["a.0.w", "a.1.w", "a.2.w"], ("a.{i}.w",), (0, 1, 2)),
        (["a.3.b.0.w", "a.5.b.0.w"], ("a.{i}.b.0.w",), (3, 5)),
        (["a.0.w", "a.0.v", "a.1.w", "a.1.v"], ("a.{i}.w", "a.{i}.v"), (0, 1)),
        (["a.0.b.0", "a.1.b.1", "a.2.b.2"], ("a.{i}.b.{i}",), (0, 1, 2)),
        (["h_9.w", "h_10.w"], ("h_{i}.w",), (9, 10)),
        (["a.0.w", "a.1.v"], None, ()),
        (["a.0.w", "a.1.w", "a.3.v"], None, ()),
        (["a.0.b.0", "a.1.b.2"], None, ()),
        (["a.w", "a.w"], None, ()),
        (["a.0.w"], None, ()),
        (["a.{i}.0", "a.{i}.1"], None, ()),
    ],
)
def test_rounds(names: list[str], patterns: tuple[str, ...] | None, numbers: tuple[int, ...]) -> None:
    found = gathered(tuple(names))
    assert (None if found is None else found.names) == patterns
    assert found is None or (found.numbers, found.all_names) == (numbers, tuple(names))


def test_a_letter_that_stands_for_something_else_is_left() -> None:
    found = gathered(("a.{i}.b.0", "a.{i}.b.1"), "i")
    assert found is not None and found.names == ("a.{i}.b.{j}",)


def mapping() -> Mapping:
    moves = (EachBranch((Branch(2, (Tie(2),), 1),) * 3), Stack(0, 3))
    names = tuple(f"a.{i}.{name}" for i in range(3) for name in ("w", "v"))
    return Mapping(
        (
            *(
                Entry(
                    tuple(f"s.{i}.{j}.w" for j in range(4)),
                    (f"s.{i}.w",),
                    (Permute((1, 0)), Stack(0, 4)),
                    shapes=((2, 3),) * 4,
                )
                for i in range(2)
            ),
            Entry(names, ("a.w",), moves, shapes=((5,),) * 6),
            Entry(("b.0", "b.1"), ("b",), (Join(0, (5, 4)),), shapes=((5,), (4,))),
        )
    )


def test_a_file_says_a_stack_s_sources_once(tmp_path: Path) -> None:
    save_mapping(mapping(), tmp_path / "m.toml")
    text = (tmp_path / "m.toml").read_text()
    assert 'source = "s.{i}.{j}.w"\ntarget = "s.{i}.w"\neach = { i = 2 }\nover = { j = 4 }\n' in text
    assert 'source = ["a.{i}.w", "a.{i}.v"]\ntarget = "a.w"\nover = { i = 3 }\n' in text
    assert "shapes = [[2, 3]]\n" in text and "shapes = [[5], [4]]\n" in text
    assert read_mapping(tmp_path / "m.toml") == mapping()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("over = { i = 3, j = 2 }", "over is one letter"),
        ("over = { j = 3 }", "is not in each of its sources"),
        ("over = { i = 0 }", "is a count, from 0 up to it"),
        ("over = 3", "a letter of the names and its count"),
    ],
)
def test_what_is_no_index(line: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text(f'[[entry]]\nsource = "a.{{i}}.w"\n{line}\ntarget = "a.w"\n')
    with pytest.raises(UsageError, match=why) as raised:
        read_mapping(tmp_path / "m.toml")
    assert "m.toml, entry 1" in str(raised.value)
