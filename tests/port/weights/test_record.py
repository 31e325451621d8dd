"""What a file says of its conversion is text in its metadata, of one length before and after it is known."""

from __future__ import annotations

import json

import pytest
from torch import nn

import port
from port.errors import BrokenWeights
from port.mapping import Mapping
from port.weights.fingerprints import FIRST_HASH
from port.weights.record import KEY, UNKNOWN, ConversionRecord, record_of

MODEL = nn.Sequential(nn.Conv2d(3, 4, (3, 2)), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(24, 5))


def record(**options) -> ConversionRecord:
    mapping = port.mapping.between(MODEL, None, fold={"3": (4, 3, 2)})
    names = [name for entry in mapping.entries for name in entry.sources]
    return ConversionRecord(mapping, dict.fromkeys(names, UNKNOWN), **options)


def test_it_is_read_back_as_it_was() -> None:
    for one in (record(), record(dtypes={"0.weight": "float32"}, left_out={"epoch": "ü"}, renamed=("module.a", "a"))):
        assert record_of("w", one.metadata()) == one
    assert record_of("w", {"format": "flax"}) is None


def test_a_record_that_names_no_hash_has_the_first_one_and_another_is_refused() -> None:
    told = json.loads(record().metadata()[KEY])
    assert record_of("w", {KEY: json.dumps(told)}) == record()
    first = {key: value for key, value in told.items() if key != "hash"}
    assert record_of("w", {KEY: json.dumps(first)}) == record(hash=FIRST_HASH)
    with pytest.raises(BrokenWeights, match="its fingerprints use 'md5'; supported are"):
        record_of("w", {KEY: json.dumps(told | {"hash": "md5"})})


def test_its_length_stays_when_the_fingerprints_are_known() -> None:
    before = record()
    after = before.with_fingerprints(dict.fromkeys(before.fingerprints, "0123456789abcdef"))
    assert len(after.metadata()[KEY]) == len(before.metadata()[KEY])
    assert after != before


def test_what_is_there_what_is_lacking_and_what_is_hidden() -> None:
    whole = record()
    assert (list(whole.carried), whole.lacking, whole.hidden) == (list(whole.mapping.entries), [], set())
    part = ConversionRecord(whole.mapping, {"0.weight": UNKNOWN, "3.bias": UNKNOWN, "mask": UNKNOWN})
    assert [entry.sources for entry in part.carried] == [("0.weight",), ("3.bias",)]
    assert part.lacking == ["0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var", "3.weight"]
    assert part.hidden == {"mask"}


@pytest.mark.parametrize("told", ["", "{}", "3", "[" * 100_000, '{"mapping": [], "fingerprints": {"a": 1}}'])
def test_what_cannot_be_read_is_told(told: str) -> None:
    with pytest.raises(BrokenWeights, match=r"w: the record of its conversion .*Convert the original again"):
        record_of("w", {KEY: told})
    assert record_of("w", ConversionRecord(Mapping(()), {}).metadata()) == ConversionRecord(Mapping(()), {})
