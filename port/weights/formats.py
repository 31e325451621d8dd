"""The formats of weights files by suffix, and the choice of a result's format."""

from __future__ import annotations

from pathlib import Path

from port.errors import UnknownChoice, UsageError

FORMATS = ("safetensors", "msgpack", "orbax", "torch", "npz", "hf", "peft")
"""Formats that can be written; "hf" is a folder as on the Hugging Face hub, "peft" an adapter's folder."""
OF_FLAX = ("safetensors", "msgpack", "orbax", "npz")
OF_TORCH = ("safetensors", "torch", "npz", "hf", "peft")
SUFFIXES = {
    ".safetensors": "safetensors",
    ".msgpack": "msgpack",
    ".orbax": "orbax",
    ".npz": "npz",
    **dict.fromkeys((".pt", ".pth", ".bin", ".ckpt", ".th", ".tar"), "torch"),
}


def format_of(out: Path | str | None, wanted: str | None, *, reverse: bool = False) -> str:
    """Choose a result's format: by its suffix, or the requested one.

    Args:
        out: the file or the folder; a name that ends in a slash is a folder of Orbax. None: nothing is written.
        wanted: one of `FORMATS`; by default a name without suffix is safetensors.
        reverse: whether a torch state dict is written, instead of Flax variables.

    Raises:
        UnknownChoice: ``wanted`` is not a format.
        UsageError: an empty path; an unknown suffix, or one of another format than ``wanted``; a format that is not for
            these weights.
    """
    if out == "":
        raise UsageError("the path of the result is empty: pass the file or the folder to write")
    if wanted is not None and wanted not in FORMATS:
        raise UnknownChoice("format", wanted, FORMATS)
    suffix = "" if out is None else Path(out).suffix.lower()
    by_name = SUFFIXES.get(suffix) or ("orbax" if str(out).endswith("/") and wanted not in ("hf", "peft") else None)
    if wanted is not None and by_name not in (None, wanted):
        raise UsageError(
            f"{out} has the suffix of {by_name}, but format {wanted} is requested: leave it out, or pass a name that "
            f"{_endings(wanted)}"
        )
    if suffix and by_name is None and wanted is None:
        raise UsageError(
            f"{out}: {suffix} is not the suffix of a format that can be written; the suffix sets the format: "
            f"{', '.join(f'{name} ({_suffixes(name)})' for name in _fitting(reverse))}"
        )
    chosen = wanted or by_name or "safetensors"
    if chosen not in _fitting(reverse):
        what = "a torch state dict is" if reverse else "Flax variables are"
        raise UsageError(
            f"{out}: {what} not written as {chosen}; there are "
            f"{', '.join(f'{name} ({_suffixes(name)})' for name in _fitting(reverse))}"
        )
    return chosen


def _fitting(reverse: bool) -> tuple[str, ...]:
    return OF_TORCH if reverse else OF_FLAX


def _suffixes(format: str) -> str:
    return ", ".join(suffix for suffix, name in SUFFIXES.items() if name == format) or f"a folder, --format {format}"


def _endings(format: str) -> str:
    return f"ends in {_suffixes(format).replace(', ', ' or ')}"
