"""Our reading of safetensors headers against the library's: what one takes the other takes, what one refuses too."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
import safetensors
from hypothesis import example, given, settings
from hypothesis import strategies as st

from port.errors import BrokenWeights
from port.weights.safetensors_files import open_safetensors

SIZES = {"BOOL": 1, "U8": 1, "F16": 2, "BF16": 2, "F32": 4, "I64": 8, "C64": 8, "F8_E4M3": 1, "F8_E8M0": 1}

ON_PURPOSE = ("occurs twice", "must be an object with dtype", "has the dtype", "that no array can have")
"""The beginnings of our reasons to refuse what the library takes: the header's docstring says why."""


def contents_of(header: bytes, data: bytes) -> bytes:
    return struct.pack("<Q", len(header)) + header + data


def compare(contents: bytes, path: Path) -> bool:
    """Hand the same bytes to both; says whether both took them."""
    path.write_bytes(contents)
    try:
        theirs = dict(safetensors.deserialize(contents))
    except safetensors.SafetensorError:
        with pytest.raises(BrokenWeights, match=path.name):
            open_safetensors(path)
        return False
    try:
        ours = open_safetensors(path)
    except BrokenWeights as error:
        assert any(reason in str(error) for reason in ON_PURPOSE), error
        if "has the dtype" in str(error):
            assert b'"F4"' in contents or b'"F6_E' in contents or b'{"F32":null}' in contents
        return False
    assert {name: list(info.shape) for name, info in ours.tensors.items()} == {
        name: entry["shape"] for name, entry in theirs.items()
    }
    for name, entry in theirs.items():
        assert ours.read(name).tobytes() == bytes(entry["data"])
    return True


@st.composite
def headers(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A header that is right, or nearly: some of its facts are moved, and some of its bytes."""
    entries: dict[str, Any] = {}
    begin = 0
    for name in draw(st.lists(st.sampled_from(["a", "b.c", "", "é", "\n", "__metadata"]), max_size=3, unique=True)):
        code = draw(st.sampled_from(sorted(SIZES)))
        shape = draw(st.lists(st.integers(0, 3), max_size=3))
        end = begin + SIZES[code]
        for size in shape:
            end = begin + (end - begin) * size
        entries[name] = {"dtype": code, "shape": shape, "data_offsets": [begin, end]}
        begin = end
    odd = st.sampled_from(
        [-1, 0, -0.0, 1, 2, 2.0, True, None, "x", 2**63, 2**64, 1e300, [1], {}, "F4", "F6_E2M3", "F32"]
    )
    for entry in entries.values():
        if draw(st.integers(0, 5)) == 0:
            field = draw(st.sampled_from(["dtype", "shape", "data_offsets", "note"]))
            if field in ("shape", "data_offsets") and entry[field] and draw(st.booleans()):
                entry[field][draw(st.integers(0, len(entry[field]) - 1))] = draw(odd)
            else:
                entry[field] = draw(odd)
        elif draw(st.integers(0, 20)) == 0:
            entry.pop(draw(st.sampled_from(["dtype", "shape", "data_offsets"])))
    if draw(st.integers(0, 3)) == 0:
        entries["__metadata__"] = draw(st.sampled_from([{}, None, {"format": "pt"}, {"n": 1}, [], {"": "\u2028"}]))
    order = draw(st.permutations(list(entries)))
    text = json.dumps({name: entries[name] for name in order}, ensure_ascii=draw(st.booleans())).encode()
    if draw(st.integers(0, 3)) == 0:
        place = draw(st.integers(0, len(text)))
        spliced = st.sampled_from(
            [b"", b" ", b"\0", b",", b'"', b"0", b"-", b"1e999", b"[[", b"}", b"\xff", b"\\ud800", b"NaN"]
        )
        text = text[:place] + draw(spliced) + text[place + draw(st.integers(0, 3)) :]
    data = bytes(range(256)) * (begin // 256 + 1)
    return text, data[: max(0, begin + draw(st.sampled_from([0, 0, 0, 0, 0, 0, 1, -1])))]


@pytest.mark.sweep
def test_random_headers(tmp_path: Path) -> None:
    taken = [0, 0]

    @settings(max_examples=500, deadline=None, database=None, derandomize=True)
    @given(headers())
    @example((b"{}", b""))
    def check(file: tuple[bytes, bytes]) -> None:
        taken[compare(contents_of(*file), tmp_path / "x.safetensors")] += 1

    check()
    assert min(taken) > 100  # both sides of the gate are tried


@pytest.mark.sweep
def test_many_random_headers(tmp_path: Path) -> None:
    @settings(max_examples=20_000, deadline=None, database=None)
    @given(headers())
    def check(file: tuple[bytes, bytes]) -> None:
        compare(contents_of(*file), tmp_path / "x.safetensors")

    check()


TENSOR = '{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'


@pytest.mark.parametrize("header", ["{}", " {}", "{}  ", "{}\n\t", "{}\0", "[]", "", "null", "\ufeff{}", '{"a":null}'])
def test_what_stands_around_a_header(tmp_path: Path, header: str) -> None:
    compare(contents_of(header.encode(), b""), tmp_path / "x.safetensors")


@pytest.mark.parametrize(
    ("entries", "both"),
    [
        (f'"a":{TENSOR}', True),
        (f'"__metadata__":null,"a":{TENSOR}', True),
        (f'"\\u005f_metadata__":{{"x":"y"}},"a":{TENSOR}', True),
        (f'"\\ud83d\\ude00":{TENSOR}', True),
        (f'"a":{TENSOR},"a":{TENSOR}', False),  # from here on only the library takes some
        ('"a":["F32",[2],[0,8]]', False),
        ('"a":{"dtype":{"F32":null},"shape":[2],"data_offsets":[0,8]}', False),
        ('"a":{"dtype":"F4","shape":[16],"data_offsets":[0,8]}', False),
        (f'"a":{TENSOR},"b":{{"dtype":"U8","shape":[0,18446744073709551615],"data_offsets":[8,8]}}', False),
        (f'"a":{TENSOR},"b":{{"dtype":"U8","shape":[{"1," * 64}0],"data_offsets":[8,8]}}', False),
        ('"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}', False),  # and from here on neither
        (f'"\\ud800":{TENSOR}', False),
        (f'"a\n":{TENSOR}', False),
        ('"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}', False),
        ('"a":{"dtype":"F32","shape":[true,2],"data_offsets":[0,8]}', False),
        ('"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}', False),
        ('"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}', False),
        ('"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}', False),
        ('"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}', False),
        ('"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}', False),
        (f'"a":{TENSOR},"b":{{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}', False),
        (f'"a":{TENSOR},"b":{{"dtype":"U8","shape":[0],"data_offsets":[4,4]}}', False),
        (f'"a":{TENSOR},"b":{{"dtype":"X9","shape":[0],"data_offsets":[8,8]}}', False),
    ],
)
def test_headers_that_are_odd(tmp_path: Path, entries: str, both: bool) -> None:
    assert compare(contents_of(f"{{{entries}}}".encode(), bytes(8)), tmp_path / "x.safetensors") is both


@pytest.mark.parametrize(
    "value", ["NaN", "Infinity", "1e999", "-1e999", "9" * 400, "9" * 5000, "01", "-0", "1E400", "0.1e-999"]
)
def test_numbers_that_only_one_side_might_read(tmp_path: Path, value: str) -> None:
    entry = f'"dtype":"F32","shape":[2],"data_offsets":[0,8],"note":{value}'
    compare(contents_of(f'{{"a":{{{entry}}}}}'.encode(), bytes(8)), tmp_path / "x.safetensors")


@pytest.mark.parametrize("deep", [1, 120, 125, 126, 127, 130, 2_000, 200_000])
def test_values_nested_deep(tmp_path: Path, deep: int) -> None:
    for opening, closing in (("[", "]"), ('{"x":', "}")):
        inner = "1" if opening != "[" else ""
        entry = f'"dtype":"F32","shape":[2],"data_offsets":[0,8],"note":{opening * deep}{inner}{closing * deep}'
        compare(contents_of(f'{{"a":{{{entry}}}}}'.encode(), bytes(8)), tmp_path / "x.safetensors")


@pytest.mark.parametrize("length", [0, 1, 2, 100_000_000, 100_000_001, 2**63, 2**64 - 1])
def test_lengths_of_a_header(tmp_path: Path, length: int) -> None:
    assert compare(struct.pack("<Q", length) + b"{}", tmp_path / "x.safetensors") is (length == 2)


def test_reasons_name_the_file_and_the_tensor(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    for entries, reason in (
        (
            '"w.k":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}',
            r"'w.k' begins at 4, but bytes 0 to 4 are no tensor's",
        ),
        (
            '"w.k":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}',
            r"'w.k' .* is 12 bytes, and its data_offsets 0 to 8",
        ),
        ('"w.k":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}', r"the tensors need 4 bytes .* the file has 8"),
        (f'"a":{TENSOR},"w.k":{{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}', r"'w.k' begins at 4, inside 'a'"),
    ):
        path.write_bytes(contents_of(f"{{{entries}}}".encode(), bytes(8)))
        with pytest.raises(BrokenWeights, match=f"{path}.*{reason}"):
            open_safetensors(path)
