"""Pickles that ask for too much are found out without doing what they ask."""

from __future__ import annotations

import io
import os
import pickle
import struct
import time
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from port.weights import pickles
from port.weights.pickles import Refused, Walk


def walked(contents: bytes, limit: int = 1000) -> Any:
    return Walk(io.BytesIO(contents), limit).pickle()


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


PROTOCOL, STOP = b"\x80\x02", b"."
DOUBLING = b"".join(b"q\x01h\x01h\x01\x86" for _ in range(60))  # a pair of the pair before, sixty times
NESTING = b"\x85" * 1_000_000


@pytest.mark.parametrize(
    ("contents", "reason"),
    [
        (b"}" + text("x") + DOUBLING + b"K\x01s", "contains itself over and over|more than 50 deep"),
        (b"}" + text("x") + b"\x85".join([b"q\x01h\x01" * 1] * 40) + NESTING + b"K\x01s", "more than 50 deep"),
        (
            b"K\x01"
            + b"(q\x01"
            + b"h\x01" * 0
            + b"t"
            + b"q\x01("
            + b"h\x01" * 9000
            + b"t" * 1
            + b"q\x01("
            + b"h\x01" * 9000
            + b"t",
            "over and over",
        ),
        (b"c__builtin__\nbytearray\n\x8a\x05" + (10**10).to_bytes(5, "little") + b"\x85R", "enormous work"),
        (
            b"](c__builtin__\nbytearray\nq\x01J\x00\x00\x00\x01q\x02\x85R" + b"h\x01h\x02\x85R" * 9 + b"e",
            "enormous work",
        ),
        (b"c_codecs\nencode\n" + text("a") + text("punycode") + b"\x86R", "encodes text differently"),
        (b"ctorch._tensor\n_rebuild_from_type_v2\n(c__builtin__\nbytearray\nK\x01K\x01K\x01tR", "builtins.bytearray"),
        (b"ctorch\nTensor\n\x8a\x05" + (10**10).to_bytes(5, "little") + b"\x85R", "it calls torch.Tensor"),
        (b"ctorch\nTensor\n)\x81", "makes an object of a class"),
        (b"ctorch.nn.parameter\nParameter\n}b", "other than an OrderedDict"),
        (b"cos\nsystem\n" + text("true") + b"\x85R", r"os\.system"),
        (b"c__builtin__\neval\n" + text("1") + b"\x85R", r"builtins\.eval"),
        (text("eval") + b"K\x01\x85R", "something other than a function"),
        (b"cnumpy.core.multiarray\nscalar\nK\x01\x85R", r"numpy\.core\.multiarray\.scalar"),
        (b"ctorch._utils\n_rebuild_sparse_tensor\n)R", "_rebuild_sparse_tensor"),
        (text("file") + b"Q", "accesses data differently"),
        (b"h\x07", "not a complete pickle"),
        (b"0", "the operation POP"),
        (b"X\xff\xff\xff\xffa", "not a complete pickle"),
        (b"\x8b\xff\xff\xff\x7fa", "not a complete pickle"),
        (b"I" + b"9" * 5000 + b"\n", "not a complete pickle"),
        (b"\x8c\x01a", "the operation SHORT_BINUNICODE"),
    ],
)
def test_what_is_refused(contents: bytes, reason: str) -> None:
    begin, before = time.monotonic(), psutil.Process().memory_info().rss
    with pytest.raises(Refused, match=reason):
        walked(PROTOCOL + contents + STOP)
    assert time.monotonic() - begin < 10
    assert psutil.Process().memory_info().rss - before < 300e6


def test_stubs_stand_for_what_is_named_and_for_nothing_else() -> None:
    """With a reader that makes stubs: what it names may be called, filled and given a state; nothing else may."""
    made = {"a": Path("/"), "b": io.BytesIO(b"x"), "c": ValueError("x"), "d": Growing(a=1)}
    contents = pickle.dumps(made, protocol=2)
    walk = Walk(io.BytesIO(contents), 1000, stubs=True)
    walk.pickle()
    assert any("Growing" in name for name in walk.names) and len(walk.names) >= 4
    for harm, reason in (
        (b"ctorch\nTensor\n)R", "it calls torch.Tensor"),
        (b"ccollections\nOrderedDict\n}b", "sets the state of something other than an OrderedDict"),
        (b"cos\nsystem\n}b", r"os\.system"),
        (b"cos\nsystem\n)R)R", r"os\.system"),
        (b"c__builtin__\nbytearray\n\x8a\x05" + (10**10).to_bytes(5, "little") + b"\x85R", "enormous work"),
        (
            b"cos\nsystem\nc__builtin__\nbytearray\n\x8a\x05" + (10**10).to_bytes(5, "little") + b"\x85R\x86",
            r"os\.system",
        ),
        (b"(" + b"".join(b"ca\nb%d\n" % place for place in range(2000)) + b"t", r"a\.b0"),
    ):
        with pytest.raises(Refused, match=reason):
            Walk(io.BytesIO(PROTOCOL + harm + STOP), 1000, stubs=True).pickle()


class Growing(dict[str, int]):
    """A dict of a class of its own."""


def test_no_more_operations_than_a_checkpoint_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickles, "MOST_OPERATIONS", 20_000)
    walked(PROTOCOL + b"N" * 19_998 + STOP)
    with pytest.raises(Refused, match="more than 20000 operations"):
        walked(PROTOCOL + b"N" * 19_999 + STOP)


@pytest.mark.parametrize(
    "value",
    [
        {"lr": 0.1, "betas": (0.9, 0.999), "step": 3, "name": "é", "flag": True, "none": None, "big": 2**70},
        OrderedDict(a=[1, 2, (3, (4, 5))], b={1: {2: {}}}),
        [(float(step), step) for step in range(10_000)],
        tuple(range(100_000)),
        Counter("abca"),
        {"set": {1, 2, 3}, "complex": 1 + 2j, "bytes": b"\x00\xff", "bytearray": bytearray(b"abc")},
        torch.Size([2, 3]),
        torch.device("cpu"),
        torch.float16,
    ],
)
def test_what_training_checkpoints_hold_is_let_through(value: Any) -> None:
    contents = pickle.dumps(value, protocol=2)
    walked(contents, limit=len(contents))


def test_a_number_or_a_text_is_given_back() -> None:
    assert walked(pickle.dumps(2**70, protocol=2)) == 2**70
    assert walked(pickle.dumps("magic", protocol=2)) == "magic"
    assert walked(pickle.dumps(["magic"], protocol=2)) is None


def test_storages_are_told() -> None:
    told: list[tuple[str, str, int]] = []
    buffer = io.BytesIO()
    torch.save({"a": torch.ones(5), "b": torch.ones(2, dtype=torch.int64)}, buffer)
    import zipfile

    contents = zipfile.ZipFile(buffer).read("archive/data.pkl")
    Walk(io.BytesIO(contents), 10_000, lambda *facts: told.append(facts)).pickle()
    assert told == [("0", "torch.FloatStorage", 5), ("1", "torch.LongStorage", 2)]


def test_all_that_is_wanted_is_named() -> None:
    class Holder:
        def __init__(self, *parts: Any) -> None:
            self.parts = parts

        def __reduce__(self) -> Any:
            return (OrderedDict, ([("parts", self.parts)],))

    with pytest.raises(Refused) as refusal:
        walked(pickle.dumps([Path("/"), Holder(io.StringIO("x")), {"e": ValueError("x")}], protocol=2))
    assert len(refusal.value.names) == 3
    assert "builtins.ValueError" in "".join(refusal.value.names).replace("exceptions", "builtins")


@pytest.mark.parametrize("protocol", [4, 5])
def test_pythons_own_protocols_are_read_where_they_are_asked_for(protocol: int) -> None:
    pickled = pickle.dumps({"a": (1, "b"), "c": [2.5, None]}, protocol)
    with pytest.raises(Refused, match=r"which torch\.save's protocol 2 does not use"):
        Walk(io.BytesIO(pickled), len(pickled)).pickle()
    Walk(io.BytesIO(pickled), len(pickled), newer=True).pickle()
    wanted = pickle.dumps(os.getcwd, protocol)
    with pytest.raises(Refused, match=r"it wants to run \w+\.getcwd"):
        Walk(io.BytesIO(wanted), len(wanted), newer=True).pickle()


def test_a_number_to_remember_by_that_makes_room_for_billions() -> None:
    """Python's own reader allocates as many places, and writes to each."""
    with pytest.raises(Refused, match="uses memo number 2147483647"):
        walked(b"\x80\x02Nr\xff\xff\xff\x7f.")
    assert walked(b"\x80\x02Nr\x01\x00\x00\x00.") is None


def test_a_frame_that_is_larger_than_the_file() -> None:
    pickled = bytearray(pickle.dumps(list(range(9)), 4))
    assert pickled[2:3] == b"\x95"
    pickled[10] = 1
    with pytest.raises(Refused, match=r"a frame of its pickle should have \d{17} bytes"):
        Walk(io.BytesIO(bytes(pickled)), len(pickled), newer=True).pickle()
