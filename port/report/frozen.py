"""Which parameters of a translation are not trained, in few words."""

from __future__ import annotations

from port.translation import Translation


def frozen_places(translation: Translation) -> list[str]:
    """The frozen parameters, those of a module with nothing to train by the module's name: ``backbone.*``."""
    found: dict[str, None] = {}
    for name in translation.frozen:
        parts = name.split(".")
        above = (".".join(parts[:length]) + "." for length in range(1, len(parts)))
        whole = next((path for path in above if not any(other.startswith(path) for other in translation.trained)), None)
        found[name if whole is None else f"{whole}*"] = None
    return list(found)


def frozen_count(translation: Translation) -> str:
    """How many: ``18 of 20 parameters``."""
    frozen = len(translation.frozen)
    return f"{frozen} of {frozen + len(translation.trained)} parameters"
