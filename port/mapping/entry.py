"""An entry of a mapping: where one tensor goes, or several tensors that belong together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import UnionType
from typing import TypeVar

import numpy as np

from port.errors import WeightsMismatch
from port.moves import Addends, EachBranch, Merge, Move, Narrow, Shapes, Sum, Tie, Widen, dtypes_of

TORCH_ONLY = "torch_only"
"""The collection of tensors that have no place in Flax, kept aside for the way back."""

FROZEN = "Frozen"
"""The collection of `port.nn.Frozen`: parameters that are not trained."""

Names = tuple[str, ...]
Thing = TypeVar("Thing")


@dataclass(frozen=True)
class Entry:
    """Where one tensor goes, or several tensors that belong together.

    Attributes:
        sources: keys on the source side.
        targets: paths on the target side.
        collection: Flax's kind of variable: ``"params"``, ``"batch_stats"``, …; `FROZEN` for a parameter that is
            not trained, `TORCH_ONLY` for a tensor without a place in Flax.
        shapes: the sources' shapes, if known.
        optional: whether it may be missing; the other side then keeps its value.
    """

    sources: Names
    targets: Names
    moves: tuple[Move, ...] = ()
    collection: str = "params"
    shapes: Shapes | None = None
    optional: bool = False

    def __call__(self, arrays: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        """Convert the sources' arrays.

        Raises:
            WeightsMismatch: a move cannot take the arrays; names their sources.
        """
        try:
            for move in self.moves:
                arrays = move(arrays)
        except WeightsMismatch as error:
            raise WeightsMismatch(f"{self}: {error}") from None
        return self._one_each(arrays)

    def target_shapes(self, shapes: Shapes | None = None) -> Shapes:
        """Return the targets' shapes, from the sources' shapes passed or known.

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
        """Return the targets' dtypes, from the sources' shapes and dtypes.

        Raises:
            WeightsMismatch: a move cannot take the shapes.
        """
        if self.changes_dtype:
            return self._one_each(dtypes_of(self.moves, shapes, dtypes))
        return dtypes[:1] * len(self.targets)

    def inverse(self) -> Entry:
        """Return the entry for the opposite direction.

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
        """Whether all the sources are names of one tensor, any of which is enough."""
        return bool(self.moves) and isinstance(self.moves[0], Tie)

    @property
    def is_exact(self) -> bool:
        """Whether it only moves bits: no sums, no merges, no widening."""
        return not (self.sums or self.changes_dtype or _has(self.moves, Merge))

    @property
    def sums(self) -> bool:
        """Whether torch's tensors are summed into one, so that the way back does not restore their bits."""
        return _has(self.moves, Sum | Addends)

    @property
    def changes_dtype(self) -> bool:
        """Whether a quantised weight is widened by its scales, or the reverse."""
        return _has(self.moves, Widen | Narrow)

    @property
    def has_inverse(self) -> bool:
        """Whether there is a way back: not if an adapter is merged into its weight."""
        return not _has(self.moves, Merge)

    @property
    def tied(self) -> tuple[Names, ...]:
        """The sources that are names of one tensor."""
        return _tied(self.sources, self.moves)

    def _one_each(self, arrays: tuple[Thing, ...]) -> tuple[Thing, ...]:
        if len(arrays) != len(self.targets):
            raise WeightsMismatch(f"{self}: its moves return {len(arrays)} arrays for {len(self.targets)} targets")
        return arrays

    def __str__(self) -> str:
        moves = ", ".join(map(str, self.moves))
        return f"{', '.join(self.sources)} → {', '.join(self.targets)}" + (f"  [{moves}]" if moves else "")


def gather(entry: Entry, named: Mapping[str, Thing]) -> tuple[Thing, ...]:
    """Collect the arrays (or shapes) of an entry's sources; missing names of a tied tensor get another name's.

    Looks up each once. Raises KeyError for a tensor that is missing under every name.
    """
    found = {source: named[source] for source in entry.sources if source in named}
    for names in entry.tied:
        for name in names:
            if name not in found and (others := [other for other in names if other in found]):
                found[name] = found[others[0]]
    return tuple(found[source] for source in entry.sources)


def _has(moves: tuple[Move, ...], kinds: type | UnionType) -> bool:
    """Whether moves of these kinds are among the moves, or in their branches."""
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
