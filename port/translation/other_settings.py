"""What is known of a translation at other settings of the original's constructor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Settings = Mapping[str, Any]
"""Names of the constructor's arguments, ``heads`` or ``config.n_head`` → values."""

OtherModel = Settings | Callable[[], Any]
"""The original at other settings: what is moved, or what constructs it so."""


NOT_CONSTRUCTED = (
    "constructors keep no arguments: the original could not be constructed anew as it is; say how, construct=lambda: …"
)
"""What is said of a model whose arguments nobody gives, and that are not found in it."""


CONSTRUCTED_OTHERWISE = (
    "constructors keep no arguments: constructed once more, with numbers that know which argument they are, the "
    "original is another model, or fails"
)
"""What is said where ``construct`` does not give the model anew."""


@dataclass(frozen=True)
class WrongAt:
    """Settings at which what was written is not the original.

    Attributes:
        settings: by their names.
        moved: the same, as the constructor takes them.
        why: a clause.
    """

    settings: Settings
    moved: tuple[tuple[str, ...], ...]
    why: str

    @property
    def sentence(self) -> str:
        """``with heads = 4, dim = 12 …``."""
        return f"with {said(self.settings)} {self.why}"


@dataclass(frozen=True)
class OtherSizes:
    """What comparing both sides at other settings came to.

    Attributes:
        proved: at which both sides are the same.
        unjudged: at which that cannot be judged, and why.
        wrong: at which they are not.
        left: how many were not tried.
        limit: the seconds that there were for it.
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
        left = [f"{some} left, for they take more than the {self.limit:g} s that there are for it"] if self.left else []
        return "; ".join([*same, *left])

    @property
    def lines(self) -> tuple[str, ...]:
        """A sentence each."""
        at = f": {'; '.join(map(said, self.proved))}" if self.proved else ""
        same = [self.sentence.replace("; ", f"{at}; ", 1) if "; " in self.sentence else self.sentence + at]
        return (*filter(None, same), *(f"not judged with {said(settings)}: {why}" for settings, why in self.unjudged))


@dataclass(frozen=True)
class OtherSettings:
    """Which arguments of the root's constructor the source takes other values for.

    Attributes:
        tried: settings at which the original is written as the same source.
        fixed: arguments that are written as their values → why.
        entangled: classes whose instances differ in arguments that hold for these alone → those.
        unknown: why nothing is known of any; empty if something is.
        values: of the arguments.
        sizes: what comparing both sides at other settings came to.
    """

    tried: tuple[Settings, ...] = ()
    fixed: Mapping[str, str] = field(default_factory=dict)
    entangled: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unknown: str = ""
    values: Settings = field(default_factory=dict)
    sizes: OtherSizes = field(default_factory=OtherSizes)

    def why_fixed(self, name: str) -> str | None:
        """Why an argument stays as it is; a field of a configuration may be named alone."""
        return next((why for each, why in self.fixed.items() if name in (each, each.rpartition(".")[2])), None)

    @property
    def lines(self) -> tuple[str, ...]:
        """A sentence each."""
        same = () if self.sizes.proved else tuple(f"the same source at {said(settings)}" for settings in self.tried)
        none = (self.unknown,) if self.unknown else ()
        alone = (
            f"{name} takes {', '.join(names)} as its instances have them: moved by itself, none is the original's"
            for name, names in self.entangled.items()
        )
        return (*none, *self.sizes.lines, *same, *self.fixed_lines, *alone)

    @property
    def fixed_lines(self) -> tuple[str, ...]:
        """Which arguments stay at their values, and why: a sentence each."""
        return tuple(f"{name} stays {self.values.get(name, 'as it is')}: {why}" for name, why in self.fixed.items())

    @property
    def sentence(self) -> str:
        """What a proof says of other settings; empty where both sides were compared at none."""
        return "; ".join([self.sizes.sentence, *self.fixed_lines]) if self.sizes.sentence else ""


def said(settings: Settings) -> str:
    """``dim = 24, heads = 4``; of an object that says itself on several lines its class alone."""
    return ", ".join(f"{name} = {_shown(value)}" for name, value in settings.items())


def _shown(value: Any) -> str:
    text = str(value)
    return f"{type(value).__name__}(…)" if "\n" in text else text
