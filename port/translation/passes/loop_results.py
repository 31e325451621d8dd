"""Results of a rerolled loop: the final carries, and the stacked outputs of all iterations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from port.translation.ir.graph import (
    Loop,
    Operation,
    Stacked,
    Step,
    Value,
    read_by,
    reading,
)
from port.translation.passes.loop_rounds import Made, Round


class Leaving:
    """Rewrites the steps after a loop to read the loop's results instead of the values of unrolled iterations.

    Attributes:
        stacked: the stacked outputs that the loop needs.
        behind: steps after the loop that take single iterations out of them.
    """

    def __init__(self, made: Round, reverse: bool) -> None:
        self.made, self.reverse = made, reverse
        self.stacked: list[Stacked] = []
        self.behind: list[Step] = []
        self.handed_on = {after for _, after in made.carried}
        self.taken_apart: set[Made] = set()  # results that are read for single iterations
        self.lasts: dict[Made, Value] = {}
        self.lists: dict[Made, Value] = {}
        self.parts: dict[Value, Value] = {}
        self.same: dict[Value, Value] = {}  # the original's stack → the loop's stacked output
        self.rows = _rows(made)
        self.unsqueezed = {
            step.results[0]: (step.arguments["self"], step.arguments["dim"] % step.results[0].rank)
            for step in made.steps
            if isinstance(step, Operation) and step.operator == "aten.unsqueeze.default"
        }

    def followed(self, steps: list[Step]) -> list[Step]:
        """Rewrite the steps after the loop to read the loop's results."""
        joined = [made for step in steps for made in self._joined(step)]
        for step in joined:
            for value in read_by(step):
                number, *place = self.made.produced.get(value, (self.made.count, 0, 0))
                if number < self.made.count - 1:
                    self.taken_apart.add((place[0], place[1]))
        assert not any(isinstance(step, Loop) for step in joined), "loops are rerolled from the first to the last"
        return [reading(step, self.left) for step in joined]

    def last(self, made: Made) -> Value:
        """Return the final value of a carry."""
        inside = self.made.inner[made]
        return self.lasts.setdefault(made, Value(f"{inside.name}_last", inside.shape, inside.dtype))

    def left(self, value: Value) -> Value:
        """Return the value after the loop that equals a value of an unrolled iteration."""
        origin = self.made.produced.get(value)
        if origin is None:
            return self.same.get(value, value)
        number, *place = origin
        made = (place[0], place[1])
        is_last = number == self.made.count - 1
        if is_last and made in self.handed_on - self.taken_apart:
            return self.last(made)
        return self._part(value, made, number)

    def _part(self, value: Value, made: Made, number: int) -> Value:
        """Select one iteration from the stacked outputs."""
        if value not in self.parts:
            if made not in self.lists:
                self.lists[made] = self._stack(self.made.inner[made], 0)
            index = -1 - number if self.reverse else number if number < self.made.count - 1 else -1
            part = self.parts[value] = Value(f"{value.name}_part", value.shape, value.dtype)
            arguments = {"self": self.lists[made], "dim": 0, "index": index}
            self.behind.append(Operation("aten.select.int", arguments, (part,), False, None))
        return self.parts[value]

    def _stack(self, inside: Value, axis: int) -> Value:
        assert inside.shape is not None
        shape = (*inside.shape[:axis], self.made.count, *inside.shape[axis:])
        whole = Value(f"{inside.name}_all_{len(self.stacked)}", shape, inside.dtype)
        self.stacked.append(Stacked(inside, axis, whole))
        return whole

    # %% Stacked outputs

    def _joined(self, step: Step) -> list[Step]:
        """Replace a stack or concatenation of all iterations' results by a stacked output; other steps stay."""
        if not isinstance(step, Operation) or step.operator not in ("aten.stack.default", "aten.cat.default"):
            return [step]
        tensors: list[Value] = list(step.arguments["tensors"])
        found = self._row(tensors)
        if found is None:
            return [step]
        start, inside, backwards = found
        result = step.results[0]
        axis = step.arguments["dim"] % result.rank
        steps: list[Step] = []
        if step.operator == "aten.stack.default":
            whole = self._stack(inside, axis)
            others = [*tensors[:start], None, *tensors[start + self.made.count :]]
            parts = [whole if other is None else _unsqueezed(other, axis, steps) for other in others]
        else:
            whole = self._along(inside, axis, steps)
            parts = [*tensors[:start], whole, *tensors[start + self.made.count :]]
        if backwards != self.reverse:
            assert whole.shape is not None
            flipped = Value(f"{whole.name}_flipped", whole.shape, whole.dtype)
            flip = {"self": whole, "dims": [axis]}
            steps.append(Operation("aten.flip.default", flip, (flipped,), False, step.place))
            parts = [flipped if part is whole else part for part in parts]
        if len(parts) == 1:
            self.same[result] = parts[0]
            return steps
        return [*steps, replace(step, operator="aten.cat.default", arguments={"tensors": parts, "dim": axis})]

    def _along(self, inside: Value, axis: int, steps: list[Step]) -> Value:
        """Return all iterations' results concatenated along an existing axis."""
        assert inside.shape is not None
        without = self.unsqueezed.get(inside)
        if without is not None and without[1] == axis:
            return self._stack(without[0], axis)
        stacked = self._stack(inside, axis)
        length = inside.shape[axis]
        joined: Any = self.made.count * length if isinstance(length, int) else f"{self.made.count}*({length})"
        shape = (*inside.shape[:axis], joined, *inside.shape[axis + 1 :])
        whole = Value(f"{stacked.name}_joined", shape, inside.dtype)
        arguments = {"self": stacked, "start_dim": axis, "end_dim": axis + 1}
        steps.append(Operation("aten.flatten.using_ints", arguments, (whole,), False, None))
        return whole

    def _row(self, tensors: list[Value]) -> tuple[int, Value, bool] | None:
        """Find the results of all iterations in a list of tensors: start, value inside the loop, whether reversed."""
        count = self.made.count
        for inside, row in self.rows.items():
            for backwards in (False, True):
                wanted = row[::-1] if backwards else row
                starts = [place for place, tensor in enumerate(tensors) if tensor is wanted[0]]
                for start in starts:
                    if len(wanted) == count and tensors[start : start + count] == wanted:
                        return start, inside, backwards
        return None


def _rows(made: Round) -> dict[Value, list[Value]]:
    """Return, for each result and carry inside the loop, its values in all unrolled iterations."""
    by_place: dict[Made, list[Value]] = {}
    for value, (_, place, result) in made.produced.items():
        by_place.setdefault((place, result), []).append(value)
    rows = {made.inner[place]: row for place, row in by_place.items() if place in made.inner and len(row) == made.count}
    taken = {
        inside: [first, *by_place[after]][: made.count]
        for (first, after), inside in made.carried.items()
        if len(by_place[after]) >= made.count - 1
    }
    return rows | taken


def _unsqueezed(value: Value, axis: int, steps: list[Step]) -> Value:
    assert value.shape is not None
    made = Value(f"{value.name}_with_axis_{axis}", (*value.shape[:axis], 1, *value.shape[axis:]), value.dtype)
    arguments = {"self": value, "dim": axis}
    steps.append(Operation("aten.unsqueeze.default", arguments, (made,), False, None))
    return made
