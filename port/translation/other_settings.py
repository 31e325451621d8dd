"""Results about a translation at other settings of the original's constructor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Settings = Mapping[str, Any]
"""Name of a constructor argument, ``heads`` or ``config.n_head`` → value."""

OtherModel = Settings | Callable[[], Any]
"""The original at other settings: the settings to change, or a function that constructs it."""


NOT_CONSTRUCTED = "constructors keep no arguments: the original could not be reconstructed; pass construct=lambda: …"
"""The reason where ``construct`` is not passed and the constructor's arguments cannot be inferred."""


CONSTRUCTED_OTHERWISE = (
    "constructors keep no arguments: reconstructed with numbers that remember which argument they are, the original is "
    "a different model, or fails"
)
"""The reason where ``construct`` does not reproduce the model."""


@dataclass(frozen=True)
class WrongAt:
    """Settings at which the written module differs from the original.

    Attributes:
        settings: the settings by name.
        moved: the same settings as paths: argument, field, ….
        why: a clause that says how they differ.
    """

    settings: Settings
    moved: tuple[tuple[str, ...], ...]
    why: str

    @property
    def sentence(self) -> str:
        """``with heads = 4, dim = 12 …``."""
        return f"with {settings_text(self.settings)} {self.why}"


@dataclass(frozen=True)
class OtherSizes:
    """The result of comparing both sides at other settings.

    Attributes:
        proved: settings at which both sides agree.
        unjudged: settings at which they cannot be judged, each with the reason.
        wrong: settings at which they differ; None if there are none.
        left: how many were not tried for lack of time.
        limit: the time limit in seconds.
    """

    proved: tuple[Settings, ...] = ()
    unjudged: tuple[tuple[Settings, str], ...] = ()
    wrong: WrongAt | None = None
    left: int = 0
    limit: float = 0.0

    @property
    def sentence(self) -> str:
        """``the same at 7 other sizes``; empty where none was tried."""
        count = len(self.proved)
        same = [f"the same at {count} other size{'' if count == 1 else 's'}"] if count else []
        some = (
            f"{self.left} more {'was' if self.left == 1 else 'were'}" if count else f"all {self.left} other sizes were"
        )
        left = [f"{some} skipped: they would exceed the limit of {self.limit:g} s"] if self.left else []
        return "; ".join([*same, *left])

    @property
    def lines(self) -> tuple[str, ...]:
        """The result as lines of text."""
        at = f": {'; '.join(map(settings_text, self.proved))}" if self.proved else ""
        same = [self.sentence.replace("; ", f"{at}; ", 1) if "; " in self.sentence else self.sentence + at]
        return (
            *filter(None, same),
            *(f"not judged with {settings_text(settings)}: {why}" for settings, why in self.unjudged),
        )


@dataclass(frozen=True)
class OtherSettings:
    """Which arguments of the root's constructor can take other values in the source.

    Attributes:
        tried: settings at which the original leads to the same source.
        fixed: arguments that are written as their values → why.
        entangled: class name → arguments that are valid only in the combinations of its instances.
        unknown: why nothing is known about any argument; empty otherwise.
        values: the arguments' own values.
        sizes: the result of comparing both sides at other settings.
    """

    tried: tuple[Settings, ...] = ()
    fixed: Mapping[str, str] = field(default_factory=dict)
    entangled: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unknown: str = ""
    values: Settings = field(default_factory=dict)
    sizes: OtherSizes = field(default_factory=OtherSizes)

    def why_fixed(self, name: str) -> str | None:
        """Return why an argument is fixed, or None; a field of a configuration may be named without its path."""
        return next((why for each, why in self.fixed.items() if name in (each, each.rpartition(".")[2])), None)

    @property
    def lines(self) -> tuple[str, ...]:
        """All results as lines of text."""
        same = (
            ()
            if self.sizes.proved
            else tuple(f"the same source at {settings_text(settings)}" for settings in self.tried)
        )
        none = (self.unknown,) if self.unknown else ()
        alone = (
            f"{name} takes {', '.join(names)} only in its instances' combinations: changed alone, none is the "
            "original's"
            for name, names in self.entangled.items()
        )
        return (*none, *self.sizes.lines, *same, *self.fixed_lines, *alone)

    @property
    def fixed_lines(self) -> tuple[str, ...]:
        """The fixed arguments with their values and reasons, one line each."""
        return tuple(f"{name} stays {self.values.get(name, 'as it is')}: {why}" for name, why in self.fixed.items())

    @property
    def sentence(self) -> str:
        """A summary for the proof; empty where both sides were compared at no other settings."""
        return "; ".join([self.sizes.sentence, *self.fixed_lines]) if self.sizes.sentence else ""


def settings_text(settings: Settings) -> str:
    """Format settings as ``dim = 24, heads = 4``; an object with a multi-line text is shown as its class."""
    return ", ".join(f"{name} = {_shown(value)}" for name, value in settings.items())


def _shown(value: Any) -> str:
    text = str(value)
    return f"{type(value).__name__}(…)" if "\n" in text else text
