"""Arguments of the root that vary together in the example calls, so that nobody knows which of them does what."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from port.translation.ir import syntax
from port.translation.ir.expr import code
from port.translation.structure.cases import GivenArray, Held, name_of

_NONE = syntax.Const(None)


@dataclass(frozen=True)
class Entangled:
    """Arguments of which only some combinations were translated.

    Attributes:
        names: of the parameters.
        seen: what they are together in the example calls: a literal, or for an array and None whether it is None.
    """

    names: tuple[str, ...]
    seen: tuple[tuple[syntax.Expr, ...], ...]
    told: tuple[syntax.Expr, ...]

    @property
    def guard(self) -> syntax.Stmt:
        """Raises at another combination."""
        test = syntax.Compare(
            syntax.Tuple(self.told), ("not in",), (syntax.Tuple(tuple(map(syntax.Tuple, self.seen))),)
        )
        said = f"no example call has {' and '.join(self.names)} together like this"
        error = syntax.Call(syntax.Name("NotImplementedError"), (syntax.Const(said),))
        return syntax.If(test, (syntax.Raise(error),))

    def __str__(self) -> str:
        return f"{' and '.join(self.names)}, together otherwise than in the example calls"


def entangled(
    cases: Sequence[Mapping[str, Held]], ambiguous: Collection[frozenset[frozenset[int]]], read: Collection[str]
) -> tuple[Entangled, ...]:
    """The arguments that the example calls do not take apart.

    Args:
        cases: what the root's parameters hold in each.
        ambiguous: groups of cases that no argument alone is known to tell from the others.
        read: the parameters that the written call reads.
    """
    varying = [name for name in cases[0] if len({_told(case.get(name)) for case in cases}) > 1]
    groups = [
        tuple(name for name in varying if any(_tells(cases, name, whose) for whose in together))
        for together in ambiguous
    ]
    for lost in (name for name in varying if name not in read):
        # What it does stands behind a condition on another.
        one = next((name for name in varying if name != lost and _decides(cases, name, lost)), None)
        groups.append(tuple(name for name in varying if one is None or name in (one, lost)))
    found: dict[tuple[str, ...], Entangled] = {}
    for names in sorted(groups, key=lambda names: (-len(names), names)):
        if len(names) > 1 and not any(set(names) <= set(other) for other in found):
            seen = dict.fromkeys(tuple(_value(case[name]) for name in names) for case in cases)
            found[names] = Entangled(names, tuple(seen), tuple(_asked(cases, name) for name in names))
    return tuple(found.values())


def _told(held: Held | None) -> Held | None:
    return GivenArray() if isinstance(held, GivenArray) else held


def _tells(cases: Sequence[Mapping[str, Held]], name: str, whose: frozenset[int]) -> bool:
    mine = {_told(case[name]) for number, case in enumerate(cases) if number in whose}
    others = {_told(case[name]) for number, case in enumerate(cases) if number not in whose}
    return not mine & others


def _decides(cases: Sequence[Mapping[str, Held]], name: str, other: str) -> bool:
    """Whether one argument is the same wherever another is."""
    found: dict[Held | None, set[Held | None]] = {}
    for case in cases:
        found.setdefault(_told(case[name]), set()).add(_told(case[other]))
    return all(len(values) == 1 for values in found.values())


def _value(held: Held) -> syntax.Expr:
    return syntax.Const(False) if isinstance(held, GivenArray) else syntax.Const(True) if held == _NONE else held


def _asked(cases: Sequence[Mapping[str, Held]], name: str) -> syntax.Expr:
    is_optional = any(case[name] == _NONE or isinstance(case[name], GivenArray) for case in cases)
    return code("p is None", p=name_of(name)) if is_optional else name_of(name)
