"""Our walk over msgpack against the library's unpacking."""

from __future__ import annotations

import mmap
import struct
import time
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from port.weights.msgpack_scan import Blob, MsgpackScan

KEYS = st.text(max_size=3) | st.integers(-5, 300)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(max_size=20)
    | st.binary(max_size=20) | st.builds(msgpack.ExtType, st.integers(0, 127), st.binary(max_size=20)),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=8,
)  # fmt: skip


def scanned(path: Path, contents: bytes) -> tuple[Any, mmap.mmap]:
    path.write_bytes(contents)
    with open(path, "rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    scan = MsgpackScan(data)
    value = scan.value()
    if scan.at != len(data):
        raise ValueError("more behind it")
    return value, data


def filled(value: Any, data: mmap.mmap) -> Any:
    """The value with the bytes that the scan left where they are."""
    if isinstance(value, Blob):
        contents = data[value.begin : value.begin + value.length]
        return contents if value.code is None else msgpack.ExtType(value.code, contents)
    if isinstance(value, dict):
        return {key: filled(inner, data) for key, inner in value.items()}
    return [filled(inner, data) for inner in value] if isinstance(value, list) else value


def text_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): text_keys(inner) for key, inner in value.items()}
    return [text_keys(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("examples", [100, pytest.param(10_000, marks=pytest.mark.sweep)])
def test_any_value(tmp_path: Path, examples: int) -> None:
    @settings(max_examples=examples, deadline=None, database=None, derandomize=True)
    @given(VALUES)
    def check(value: Any) -> None:
        contents = msgpack.packb(value)
        try:
            result = filled(*scanned(tmp_path / "w", contents))
        except ValueError as error:
            assert "occurs twice" in str(error)  # 1 and "1" in one map
            return
        assert result == text_keys(msgpack.unpackb(contents, strict_map_key=False))

    check()


@pytest.mark.parametrize("examples", [300, pytest.param(30_000, marks=pytest.mark.sweep)])
def test_any_bytes(tmp_path: Path, examples: int) -> None:
    """Bytes of any kind: what the library refuses is refused."""
    heads = st.sampled_from([bytes([head]) for head in range(0x80, 0x100)])

    @settings(max_examples=examples, deadline=None, database=None, derandomize=True)
    @given(st.builds(lambda head, rest: head + rest, heads, st.binary(max_size=12)))
    def check(contents: bytes) -> None:
        try:
            msgpack.unpackb(contents, strict_map_key=False)
        except Exception:
            with pytest.raises(ValueError):
                scanned(tmp_path / "w", contents)

    check()


@pytest.mark.parametrize("size", [0, 15, 16, 31, 32, 255, 256, 65535, 65536])
def test_every_length_of_head(tmp_path: Path, size: int) -> None:
    for value in (
        "x" * size,
        b"x" * size,
        [1] * size,
        {str(key): 1 for key in range(size)},
        msgpack.ExtType(5, b"x" * size),
    ):
        assert filled(*scanned(tmp_path / "w", msgpack.packb(value))) == value


@pytest.mark.parametrize(
    ("contents", "reason"),
    [
        (b"\xc1", "does not begin a value"),
        (b"\xdf\xff\xff\xff\xff", "it ends at byte 5"),
        (b"\xdd\xff\xff\xff\xff" + bytes(10), "it ends at byte 15"),
        (b"\xc6\xff\xff\xff\xff", "it ends at byte 5"),
        (b"\xdb" + struct.pack(">I", 2**31) + b"x", "it ends at byte 6"),
        (b"\x91" * 200_000 + b"\0", "nested more than 100 deep"),
        (b"\x81\xa1x" * 200_000 + b"\0", "nested more than 100 deep"),
        (b"\x82\xa1x\0\xa1x\0", "'x' occurs twice"),
        (b"\xa1\xff", "utf-8"),
    ],
)
def test_what_is_refused_at_once(tmp_path: Path, contents: bytes, reason: str) -> None:
    begin = time.monotonic()
    with pytest.raises(ValueError, match=reason):
        scanned(tmp_path / "w", contents)
    assert time.monotonic() - begin < 5


def test_more_values_than_a_checkpoint_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("port.weights.msgpack_scan.MOST_VALUES", 1000)
    assert len(scanned(tmp_path / "w", b"\xdc" + struct.pack(">H", 999) + bytes(999))[0]) == 999
    with pytest.raises(ValueError, match="more than 1000 values"):
        scanned(tmp_path / "w", b"\xdc" + struct.pack(">H", 1000) + bytes(1000))
