"""The suffix of a result's name says its format; what contradicts it is refused with what to do."""

from __future__ import annotations

import pytest

from port.errors import UnknownChoice, UsageError
from port.weights.formats import format_of


@pytest.mark.parametrize(
    ("out", "wanted", "reverse", "format"),
    [
        ("w.safetensors", None, False, "safetensors"),
        ("w.SafeTensors", None, True, "safetensors"),
        ("w", None, False, "safetensors"),
        (None, None, True, "safetensors"),
        ("w.msgpack", None, False, "msgpack"),
        ("w.npz", None, False, "npz"),
        ("w.npz", "npz", True, "npz"),
        ("w.orbax", None, False, "orbax"),
        ("runs/w/", None, False, "orbax"),
        ("w", "orbax", False, "orbax"),
        ("net-1.5", "orbax", False, "orbax"),
        *((f"w{suffix}", None, True, "torch") for suffix in (".pt", ".pth", ".bin", ".ckpt", ".th")),
        ("w", "torch", True, "torch"),
    ],
)
def test_the_suffix_decides(out: str | None, wanted: str | None, reverse: bool, format: str) -> None:
    assert format_of(out, wanted, reverse=reverse) == format


@pytest.mark.parametrize(
    ("out", "wanted", "reverse", "reason"),
    [
        (
            "w.pt",
            "safetensors",
            True,
            r"w\.pt has the suffix of torch, but format safetensors .* ends in \.safetensors",
        ),
        ("w.npz", "msgpack", False, r"suffix of npz, but format msgpack .*\.msgpack"),
        ("runs/", "npz", False, "suffix of orbax"),
        ("w.pt", None, False, r"Flax variables are not written as torch; there are safetensors"),
        ("w.msgpack", None, True, r"a torch state dict is not written as msgpack; .*torch \(\.pt, \.pth"),
        ("w", "orbax", True, "not written as orbax"),
        *(
            (f"w{suffix}", None, False, f"{suffix} is not the suffix of a")
            for suffix in (".h5", ".onnx", ".gguf", ".5")
        ),
        ("w", "gguf", False, "unknown format 'gguf'; there are: "),
    ],
)
def test_what_contradicts_is_refused(out: str, wanted: str | None, reverse: bool, reason: str) -> None:
    with pytest.raises((UsageError, UnknownChoice), match=reason):
        format_of(out, wanted, reverse=reverse)
