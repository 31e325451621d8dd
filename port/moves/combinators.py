"""Moves made of moves, for composing two mappings or stacking what was split."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from port.errors import WeightsMismatch
from port.moves.boxes import Boxes, Restriction, check_boxes
from port.moves.move import Arrays, Move, Shapes, count_of, gives_of, plain, restriction_of


@dataclass(frozen=True)
class Branch:
    """Some of the arrays and the moves applied to them: ``takes`` input arrays, ``gives`` output arrays."""

    takes: int
    moves: tuple[Move, ...]
    gives: int

    def inverse(self) -> Branch:
        return Branch(self.gives, tuple(move.inverse() for move in reversed(self.moves)), self.takes)

    def __str__(self) -> str:
        return ", ".join(map(str, self.moves)) or "unchanged"


@dataclass(frozen=True)
class EachBranch:
    """Branches side by side: the first takes the first arrays, the next takes those that follow."""

    branches: tuple[Branch, ...]

    def __call__(self, arrays: Arrays) -> Arrays:
        self.shapes(tuple(array.shape for array in arrays))
        results: Arrays = ()
        for branch in self.branches:
            part, arrays = arrays[: branch.takes], arrays[branch.takes :]
            for move in branch.moves:
                part = move(part)
            results += part
        return results

    def shapes(self, shapes: Shapes) -> Shapes:
        count_of(self, shapes, sum(branch.takes for branch in self.branches))
        results: Shapes = ()
        for branch in self.branches:
            part, shapes = shapes[: branch.takes], shapes[branch.takes :]
            for move in branch.moves:
                part = move.shapes(part)
            results += gives_of(self, part, branch.gives)
        return results

    def restriction(self, shapes: Shapes, wanted: Boxes) -> Restriction:
        check_boxes(wanted, self.shapes(shapes))
        parts: list[Restriction] = []
        for branch in self.branches:
            own, shapes = shapes[: branch.takes], shapes[branch.takes :]
            asked, wanted = wanted[: branch.gives], wanted[branch.gives :]
            parts.append(restriction_of(branch.moves, own, asked))

        def make(arrays: Arrays) -> Arrays:
            results: Arrays = ()
            for part in parts:
                count = sum(need is not None for need in part.needs)
                own, arrays = arrays[:count], arrays[count:]
                results += part.make(own)
            return results

        return Restriction(tuple(need for part in parts for need in part.needs), make)

    def inverse(self) -> EachBranch:
        return EachBranch(tuple(branch.inverse() for branch in self.branches))

    def __str__(self) -> str:
        # Where all branches are alike, as the layers of a stack, one is printed for all of them.
        alike = len(set(self.branches)) == 1
        return f"each({self.branches[0] if alike else ' | '.join(map(str, self.branches))})"


@dataclass(frozen=True)
class Order:
    """Reorder the arrays: the i-th array of the result is number ``places[i]`` of the input."""

    places: tuple[int, ...]

    def __post_init__(self) -> None:
        if sorted(self.places) != list(range(len(self.places))):
            raise WeightsMismatch(f"order needs each position from 0 on exactly once, got {self.places}")

    def __call__(self, arrays: Arrays) -> Arrays:
        count_of(self, tuple(array.shape for array in arrays), len(self.places))
        return tuple(arrays[place] for place in self.places)

    def shapes(self, shapes: Shapes) -> Shapes:
        count_of(self, shapes, len(self.places))
        return tuple(shapes[place] for place in self.places)

    def restriction(self, shapes: Shapes, wanted: Boxes) -> Restriction:
        check_boxes(wanted, self.shapes(shapes))
        needs = tuple(wanted[place] for place in self.inverse().places)
        there = [place for place, need in enumerate(needs) if need is not None]
        asked = [there.index(place) for place in self.places if place in there]
        return Restriction(needs, lambda arrays: tuple(arrays[place] for place in asked))

    def inverse(self) -> Order:
        return Order(tuple(int(place) for place in np.argsort(self.places)))

    def __str__(self) -> str:
        return f"order{plain(self.places)}"
