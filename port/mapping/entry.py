"""An entry of a mapping: where one tensor goes, or several that belong together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import UnionType
from typing import TypeVar

import numpy as np

from port.errors import WeightsMismatch
from port.moves import Addends, EachBranch, Merge, Move, Narrow, Shapes, Sum, Tie, Widen, dtypes_of

TORCH_ONLY = "torch_only"
"""The collection of what Flax has no home for, kept on the side for the way back."""

FROZEN = "Frozen"
"""The collection of `port.nn.Frozen`: parameters that are not trained."""

Names = tuple[str, ...]
Thing = TypeVar("Thing")


@dataclass(frozen=True)
class Entry:
    """Where one tensor goes, or several that belong together.

    Attributes:
        sources: keys on the source side.
        targets: paths on the target side.
        moves: from the sources' arrays to the targets'.
        collection: Flax's kind of variable: ``"params"``, ``"batch_stats"``, …; `FROZEN` for a parameter that is
            not trained, `TORCH_ONLY` for what has no home.
        shapes: the sources' shapes, where they are known.
        optional: whether it may be missing; the other side then keeps the value that it has.
    """

    sources: Names
    targets: Names
    moves: tuple[Move, ...] = ()
    collection: str = "params"
    shapes: Shapes | None = None
    optional: bool = False

    def __call__(self, arrays: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        """Carry the sources' arrays over.

        Raises:
            WeightsMismatch: arrays that a move cannot take; says whose they are.
        """
        try:
            for move in self.moves:
                arrays = move(arrays)
        except WeightsMismatch as error:
            raise WeightsMismatch(f"{self}: {error}") from None
        return self._one_each(arrays)

    def target_shapes(self, shapes: Shapes | None = None) -> Shapes:
        """The targets' shapes, for the sources' shapes given or known.

        Raises:
            WeightsMismatch: the sources' shapes are not known, or a move cannot take them.
        """
        shapes = self.shapes if shapes is None else shapes
        if shapes is None:
            raise WeightsMismatch(f"{self}: the shapes are not known")
        try:
            for move in self.moves:
                shapes = move.shapes(shapes)
        except WeightsMismatch as error:
            raise WeightsMismatch(f"{self}: {error}") from None
        return self._one_each(shapes)

    def dtypes(self, shapes: Shapes, dtypes: tuple[np.dtype, ...]) -> tuple[np.dtype, ...]:
        """The targets' dtypes, for the sources' shapes and dtypes.

        Raises:
            WeightsMismatch: shapes that a move cannot take.
        """
        if self.changes_dtype:
            return self._one_each(dtypes_of(self.moves, shapes, dtypes))
        return dtypes[:1] * len(self.targets)

    def inverse(self) -> Entry:
        """The entry the other way.

        Raises:
            WeightsMismatch: there is none; says why.
        """
        try:
            back = tuple(move.inverse() for move in reversed(self.moves))
        except WeightsMismatch as error:
            raise WeightsMismatch(f"{self}: {error}") from None
        return Entry(
            self.targets,
            self.sources,
            back,
            self.collection,
            None if self.shapes is None else self.target_shapes(),
            self.optional,
        )

    @property
    def is_tied(self) -> bool:
        """Whether all the sources are names of one tensor, any of which will do."""
        return bool(self.moves) and isinstance(self.moves[0], Tie)

    @property
    def is_exact(self) -> bool:
        """Whether it moves bits alone: neither sums, nor merges, nor widens."""
        return not (self.sums or self.changes_dtype or _has(self.moves, Merge))

    @property
    def sums(self) -> bool:
        """Whether torch's tensors are summed into one, whose bits do not come back."""
        return _has(self.moves, Sum | Addends)

    @property
    def changes_dtype(self) -> bool:
        """Whether a quantised weight is widened by its scales, or the other way."""
        return _has(self.moves, Widen | Narrow)

    @property
    def has_inverse(self) -> bool:
        """Whether there is a way back: not where an adapter is merged into its weight."""
        return not _has(self.moves, Merge)

    @property
    def tied(self) -> tuple[Names, ...]:
        """Which of the sources are names of one tensor."""
        return _tied(self.sources, self.moves)

    def _one_each(self, given: tuple[Thing, ...]) -> tuple[Thing, ...]:
        if len(given) != len(self.targets):
            raise WeightsMismatch(f"{self}: its moves give {len(given)}, and {len(self.targets)} are to be filled")
        return given

    def __str__(self) -> str:
        moves = ", ".join(map(str, self.moves))
        return f"{', '.join(self.sources)} → {', '.join(self.targets)}" + (f"  [{moves}]" if moves else "")


def gather(entry: Entry, named: Mapping[str, Thing]) -> tuple[Thing, ...]:
    """What belongs to an entry's sources (arrays, or shapes); of tied ones, what any has for those that are not there.

    Each is looked up once. Raises KeyError for what is not there under any name.
    """
    found = {source: named[source] for source in entry.sources if source in named}
    for names in entry.tied:
        for name in names:
            if name not in found and (others := [other for other in names if other in found]):
                found[name] = found[others[0]]
    return tuple(found[source] for source in entry.sources)


def _has(moves: tuple[Move, ...], kinds: type | UnionType) -> bool:
    """Whether moves of some kinds are among moves, or in their branches."""
    return any(
        isinstance(move, kinds)
        or (isinstance(move, EachBranch) and any(_has(branch.moves, kinds) for branch in move.branches))
        for move in moves
    )


def _tied(names: Names, moves: tuple[Move, ...]) -> tuple[Names, ...]:
    groups: tuple[Names, ...] = ()
    if moves and isinstance(moves[0], Tie):
        groups = (names,)
    elif moves and isinstance(moves[0], EachBranch):
        for branch in moves[0].branches:
            groups += _tied(names[: branch.takes], branch.moves)
            names = names[branch.takes :]
    return groups
