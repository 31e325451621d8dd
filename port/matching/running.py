"""Runs a state: Flax's model with torch's weights where the state puts them, and observes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from port.mapping.complain import Complaints
from port.mapping.entry import TORCH_ONLY, gather
from port.mapping.grouping import entries_of
from port.matching.activations import Activations, FlaxRuns, Print, alike
from port.matching.options import Node, Option
from port.matching.problem import Problem
from port.matching.state import State
from port.parity.compare.distance import difference
from port.parity.compare.outputs import match_outputs
from port.parity.sides.calls import Arrays, is_floating

MOST_RUNS = 400
"""The largest number of states to run."""


@dataclass(frozen=True)
class Shown:
    """What running a state shows.

    Attributes:
        activations: Flax's activations.
        agree: whether the model's outputs are torch's.
        apart: by how much they differ, relatively.
        score: how many nodes have the same input as their twins; more than all of them if the outputs agree.
    """

    activations: Activations
    agree: bool
    apart: float
    score: int


class StateRuns:
    """Runs states of a problem, each once.

    Args:
        problem: the nodes and their options.
        torch: torch's activations.
        runs: runs of Flax's side.
        own: the activations of Flax's side with its own variables, and these.
        weights: torch's state dict.
        guides: of both sides.
        outputs_apart: by how much Flax's outputs differ from torch's, relatively.
        tolerances: of a fingerprint, and of the outputs.
    """

    def __init__(
        self,
        problem: Problem,
        torch: Activations,
        runs: FlaxRuns,
        own: tuple[Activations, dict[str, Any]],
        weights: Arrays,
        guides: tuple[Any, Any],
        outputs_apart: Callable[[Arrays], float],
        tolerances: tuple[float, float],
    ) -> None:
        self.problem, self.torch = problem, torch
        self.own, self._own = own
        self._runs, self._weights, self._guides = runs, weights, guides
        self._outputs_apart, (self._tolerance, self._limit) = outputs_apart, tolerances
        self._carried: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._shown: dict[tuple[tuple[Any, ...], ...], Shown] = {}

    def __call__(self, state: State) -> Shown:
        """Run Flax's model with torch's weights where this state puts them."""
        key = tuple(sorted(_key(made.option) for made in state.decisions.values()))
        if key not in self._shown:
            variables = dict(self._own)
            for made in state.decisions.values():
                variables |= self._carry(made.option)
            activations, outputs = self._runs(variables)
            apart = self._outputs_apart(outputs)
            agree = apart <= self._limit
            score = sum(self.has_same_input(flax, made.option, activations) for flax, made in state.decisions.items())
            self._shown[key] = Shown(activations, agree, apart, score + (len(self.problem.flax) if agree else 0))
        return self._shown[key]

    @property
    def are_spent(self) -> bool:
        """Whether the limit on runs is reached."""
        return self._runs.count >= MOST_RUNS

    def has_same_input(self, flax: Node, option: Option, activations: Activations) -> bool:
        """Whether a Flax node has the same input as its torch twin."""
        return self.same(self.torch.input(option.torch[0]), activations.input(flax[0]))

    def same(self, one: Print | None, other: Print | None) -> bool:
        """Whether two fingerprints are of the same numbers."""
        return alike(one, other, self._tolerance)

    def _carry(self, option: Option) -> dict[str, Any]:
        import jax.numpy as jnp

        key = _key(option)
        if key not in self._carried:
            torch, flax = self._guides
            made: dict[str, Any] = {}
            for entry in entries_of(list(option.found), torch, flax, Complaints(torch, flax)):
                if entry.collection != TORCH_ONLY:
                    made |= dict(zip(entry.targets, entry(gather(entry, self._weights)), strict=True))
            self._carried[key] = {
                path: jnp.asarray(array, self._own[path].dtype) for path, array in made.items() if path in self._own
            }
        return self._carried[key]


def _key(option: Option) -> tuple[Any, ...]:
    return (*(unit.label for unit in (*option.torch, *option.flax)), option.note)


def outputs_apart(torch: Arrays, layout: Any) -> Callable[[Arrays], float]:
    """A function of Flax's outputs: the largest difference from torch's; infinity if they do not correspond."""

    def apart(flax: Arrays) -> float:
        matched = match_outputs(torch, flax, layout)
        if matched.why:
            return float("inf")
        back = matched.in_torchs(flax)
        differences = [
            difference(array, back[name])
            if is_floating(array)
            else 0.0
            if np.array_equal(array, back[name])
            else float("inf")
            for name, array in torch.items()
        ]
        return max(differences, default=0.0)

    return apart
