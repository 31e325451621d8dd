"""Composes two mappings into one: entries that share names in the middle, directly or through others, become one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from port.errors import WeightsMismatch
from port.mapping.entry import TORCH_ONLY, Entry
from port.moves import Branch, EachBranch, Move, Order

Entries = Sequence[Entry]


def composed(first: Entries, second: Entries) -> Iterator[Entry]:
    """Compose entries, from the first's sources to the second's targets.

    What one of them keeps aside for torch, and the other does not mention, stays as it is; optional sources of the
    second that the first does not produce are left out.

    Raises:
        WeightsMismatch: the second's sources are not the first's targets.
    """
    made, taken = _targets(first), _sources(second)
    kept = [entry for entry in first if entry.collection == TORCH_ONLY and taken.isdisjoint(entry.targets)]
    spare = [entry for entry in second if entry.optional and made.isdisjoint(entry.sources)]
    made, taken = made - _targets(kept), taken - _sources(spare)
    if made != taken:
        lines = [f"only the first has {name}" for name in made - taken]
        lines += [f"only the second has {name}" for name in taken - made]
        raise WeightsMismatch("these mappings do not compose:\n  " + "\n  ".join(sorted(lines)))
    meeting_first = [entry for entry in first if not made.isdisjoint(entry.targets)]
    meeting_second = [entry for entry in second if not taken.isdisjoint(entry.sources)]
    for meeting in _meetings(meeting_first, meeting_second):
        yield _one(meeting.first, meeting.second)
    yield from kept
    yield from (entry for entry in spare if entry.collection == TORCH_ONLY)


def _sources(entries: Entries) -> set[str]:
    return {name for entry in entries for name in entry.sources}


def _targets(entries: Entries) -> set[str]:
    return {name for entry in entries for name in entry.targets}


@dataclass
class _Meeting:
    """Entries of two mappings that share names in the middle."""

    first: list[Entry] = field(default_factory=list)
    second: list[Entry] = field(default_factory=list)


def _meetings(first: Entries, second: Entries) -> list[_Meeting]:
    taker = {name: entry for entry in second for name in entry.sources}
    at: dict[str, _Meeting] = {}
    for entry in first:
        takers = list(dict.fromkeys(taker[target] for target in entry.targets))
        earlier = {id(at[name]): at[name] for taking in takers for name in taking.sources if name in at}
        joined = _Meeting([e for met in earlier.values() for e in met.first], [])
        joined.first.append(entry)
        joined.second = list(dict.fromkeys([*(e for met in earlier.values() for e in met.second), *takers]))
        at |= {name: joined for taking in joined.second for name in taking.sources}
    return list({id(meeting): meeting for meeting in at.values()}.values())


def _one(first: Entries, second: Entries) -> Entry:
    place_of = {name: place for place, name in enumerate(name for entry in first for name in entry.targets)}
    order = tuple(place_of[name] for entry in second for name in entry.sources)
    in_order: list[Move] = [] if order == tuple(range(len(order))) else [Order(order)]
    shapes = [entry.shapes for entry in first]
    # The mapping on Flax's side knows the kind of variable; the other has the default.
    collection = second[0].collection if second[0].collection != "params" else first[0].collection
    return Entry(
        tuple(name for entry in first for name in entry.sources),
        tuple(name for entry in second for name in entry.targets),
        (*_side_by_side(first), *in_order, *_side_by_side(second)),
        collection,
        None if None in shapes else tuple(shape for known in shapes for shape in known or ()),
        all(entry.optional for entry in (*first, *second)),
    )


def _side_by_side(entries: Entries) -> tuple[Move, ...]:
    if len(entries) == 1:
        return entries[0].moves
    return (EachBranch(tuple(Branch(len(entry.sources), entry.moves, len(entry.targets)) for entry in entries)),)
