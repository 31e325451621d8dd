"""Options for two models' names and layouts: ``--mapping``, ``--rename``, ``--fold``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from port.errors import UsageError
from port.mapping import Mapping, Rules, read_mapping


def rules_from(mapping: Path | None, rename: Sequence[str], fold: Sequence[str]) -> Any:
    """Read a whole mapping, or rules; None if no option is passed.

    Args:
        mapping: a mapping file.
        rename: ``PATTERN=NAME`` for each renaming; they come before the file's.
        fold: ``LAYER=C,H,W`` for each fold.

    Raises:
        UsageError: an option has an invalid form, or rules are combined with a whole mapping.
    """
    rules = read_mapping(mapping) if mapping is not None else Rules()
    if isinstance(rules, Mapping):
        if rename or fold:
            raise UsageError(f"{mapping} is a whole mapping: it cannot be combined with --rename and --fold")
        return rules
    renames = renames_from(rename)
    if not (renames or rules.rename or rules.fold or rules.rules or rules.keep):
        return None
    return Rules({**rules.rename, **renames}, rules.fold, rules.rules, rules.keep)


def renames_from(rename: Sequence[str]) -> dict[str, str]:
    """Return the pattern and the name of each ``PATTERN=NAME``.

    Raises:
        UsageError: the option has another form.
    """
    return dict(_split(text, "--rename", "PATTERN=NAME") for text in rename)


def fold_of(text: str) -> tuple[str, tuple[int, ...]]:
    """Parse ``LAYER=C,H,W`` into the layer and the shape.

    Raises:
        UsageError: the option has another form.
    """
    layer, shape = _split(text, "--fold", "LAYER=C,H,W")
    if not re.fullmatch(r"\d+(,\d+)+", shape):
        raise UsageError(f"--fold takes LAYER=C,H,W, as in classifier.0=512,7,7; got {text!r}")
    return layer, tuple(int(size) for size in shape.split(","))


def _split(text: str, option: str, form: str) -> tuple[str, str]:
    left, equals, right = text.rpartition("=")
    if not equals or not left:
        raise UsageError(f"{option} takes {form}; got {text!r}")
    return left, right
