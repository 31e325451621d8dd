"""The formats of weights files by their names' suffixes, and which one a result is written in."""

from __future__ import annotations

from pathlib import Path

from port.errors import UnknownChoice, UsageError

FORMATS = ("safetensors", "msgpack", "orbax", "torch", "npz", "hf", "peft")
"""What can be written; "hf" is a folder as the Hugging Face hub has them, "peft" one of an adapter alone."""
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
    """The format of a result: as the suffix of its name says, or as is asked for.

    Args:
        out: the file or the folder; a name that ends in a slash is a folder of Orbax. None: nothing is written.
        wanted: one of `FORMATS`; without it a name without suffix is safetensors.
        reverse: a torch state dict is written; else Flax variables.

    Raises:
        UnknownChoice: ``wanted`` is none of the formats.
        UsageError: a suffix of no format or of another one than ``wanted``; a format that is not for these weights.
    """
    if wanted is not None and wanted not in FORMATS:
        raise UnknownChoice("format", wanted, FORMATS)
    suffix = "" if out is None else Path(out).suffix.lower()
    by_name = SUFFIXES.get(suffix) or ("orbax" if str(out).endswith("/") and wanted not in ("hf", "peft") else None)
    if wanted is not None and by_name not in (None, wanted):
        raise UsageError(
            f"{out} is named as {by_name}, and format {wanted} is asked for: leave the format out, or give a name that "
            f"{_endings(wanted)}"
        )
    if suffix and by_name is None and wanted is None:
        raise UsageError(
            f"{out}: {suffix} is the suffix of no format that can be written; the suffix says the format: "
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
