"""Summaries of a translation's frozen parameters."""

from __future__ import annotations

from port.translation import Translation


def frozen_places(translation: Translation) -> list[str]:
    """Return the frozen parameters; a module without trained parameters appears once, as ``backbone.*``."""
    found: dict[str, None] = {}
    for name in translation.frozen:
        parts = name.split(".")
        above = (".".join(parts[:length]) + "." for length in range(1, len(parts)))
        whole = next((path for path in above if not any(other.startswith(path) for other in translation.trained)), None)
        found[name if whole is None else f"{whole}*"] = None
    return list(found)


def frozen_count(translation: Translation) -> str:
    """Return the count as text: ``18 of 20 parameters``."""
    frozen = len(translation.frozen)
    return f"{frozen} of {frozen + len(translation.trained)} parameters"
