"""Combinations of arguments that no example call has: they are tried, and those that are not right are refused."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from port.parity.compare.distance import difference
from port.parity.sides.precision import cpu_precision
from port.translation.frontend.example_inputs import Given
from port.translation.frontend.precision import in_float64
from port.translation.ir import syntax
from port.translation.ir.expr import NoSource, code, literal
from port.translation.structure.cases import name_of
from port.translation.structure.entangled import Entangled
from port.translation.verify.other_lengths import OriginalAndWritten
from port.translation.verify.torch_run import torch_outputs

if TYPE_CHECKING:
    from port.translation.artifact.written_module import WrittenModule

_MOST = 64
"""Combinations that are tried."""
_NUMBERS = (lambda number: 10 * number + 1, lambda number: -number, lambda number: 0 * number)
"""Other values of a number that is an argument: it may decide something where it is large, negative or nothing."""


def refused_combinations(
    root: torch.nn.Module, cases: Sequence[WrittenModule], calls: Sequence[Given], *, check: bool
) -> tuple[Entangled, ...]:
    """The arguments of which only some combinations are right.

    Args:
        root: the original.
        cases: what was written, as each example call has it.
        calls: the example calls.
        check: whether combinations that no call has are tried: both sides run on them, in evaluation. Otherwise all
            are refused.
    """
    if len(calls) < 2:
        return ()
    return _Combinations(root, cases, calls, check).refused()


@dataclass(frozen=True)
class _Choice:
    """What an argument is in some example calls: as the guard sees it, and itself."""

    told: syntax.Expr
    value: Any


class _Combinations:
    def __init__(
        self, root: torch.nn.Module, cases: Sequence[WrittenModule], calls: Sequence[Given], check: bool
    ) -> None:
        self.root, self.cases, self.calls, self.check = root, cases, calls, check
        self.signature = cases[0].boundary.signature
        self.bound = [self._bound(*call) for call in calls]
        self.asked: dict[str, syntax.Expr] = {}
        self.choices: dict[str, list[_Choice]] = {}
        for name in (name.lstrip("*") for name in cases[0].boundary.parameters):
            self._look_at(name, [bound.arguments[name] for bound in self.bound])

    @cached_property
    def sides(self) -> OriginalAndWritten:
        """Both sides; made where something is tried."""
        return OriginalAndWritten(self.root, self.cases[0], *self.calls[0])

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments:
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound

    def _look_at(self, name: str, values: list[Any]) -> None:
        """Note what an argument is in the example calls, if that is not the same in all."""
        own: syntax.Expr = name_of(name)
        ranks = {value.ndim if isinstance(value, torch.Tensor) else None for value in values}
        said = [_said(value) for value in values]
        if all(value is not None for value in said):
            asked, told = own, said
        elif None not in ranks:
            asked, told = code("p.ndim", p=own), [literal(value.ndim) for value in values]
        else:
            asked, told = code("p is None", p=own), [literal(value is None) for value in values]
        if len(set(told)) > 1:
            self.asked[name] = asked
            known: dict[Any, _Choice] = {}
            for one, value in zip(told, values, strict=True):
                assert one is not None
                known.setdefault((one, _shape(value)), _Choice(one, value))
            self.choices[name] = list(known.values())

    def refused(self) -> tuple[Entangled, ...]:
        names = list(self.choices)
        seen = [tuple(self._told(name, case) for name in names) for case in range(len(self.bound))]
        every = dict.fromkeys(itertools.product(*({each.told: None for each in self.choices[n]} for n in names)))
        wrong = dict.fromkeys(every if not self.check or len(every) > _MOST else ())
        for choices in () if wrong else itertools.product(*self.choices.values()):
            told = tuple(choice.told for choice in choices)
            if told not in seen and told not in wrong and not self._is_right(dict(zip(names, choices, strict=True))):
                wrong[told] = None
        allowed = [told for told in every if told in seen or told not in wrong]
        others = [told for told in every if told not in allowed]
        found = [self._apart(names, allowed, others)] if others else []
        taken = {name for each in found for name in each.names}
        return (*found, *(self._alone(name) for name in names if name not in taken and not self._is_free(name)))

    def _told(self, name: str, case: int) -> syntax.Expr:
        value = self.bound[case].arguments[name]

        def is_alike(other: Any) -> bool:
            return _is_same(other, value) or (_shape(value) is not None and _shape(other) == _shape(value))

        return next(each.told for each in self.choices[name] if is_alike(each.value))

    def _apart(
        self, names: list[str], allowed: list[tuple[syntax.Expr, ...]], wrong: list[tuple[syntax.Expr, ...]]
    ) -> Entangled:
        """The fewest arguments that tell what is right from what is not."""
        for count in range(1, len(names) + 1):
            for places in itertools.combinations(range(len(names)), count):
                right = dict.fromkeys(tuple(told[place] for place in places) for told in allowed)
                if not any(tuple(told[place] for place in places) in right for told in wrong):
                    some = tuple(names[place] for place in places)
                    return Entangled(some, tuple(self.asked[name] for name in some), tuple(right))
        raise AssertionError("what is right is not wrong")

    def _alone(self, name: str) -> Entangled:
        seen = dict.fromkeys((choice.told,) for choice in self.choices[name])
        return Entangled((name,), (self.asked[name],), tuple(seen))

    def _is_free(self, name: str) -> bool:
        """Whether an argument may be what no example call has: an array, a switch, a number that others bear out."""
        values = [choice.value for choice in self.choices[name]]
        constants = [value for value in values if value is not None and not isinstance(value, torch.Tensor)]
        if not constants or all(isinstance(value, bool) for value in constants):
            return {True, False} <= set(constants) if constants else True
        if not self.check or not all(type(value) in (int, float) for value in constants):
            return False
        others = [other(value) for value in constants for other in _NUMBERS]
        return all(self._is_right({name: _Choice(self.asked[name], other)}) for other in others)

    def _is_right(self, choices: Mapping[str, _Choice]) -> bool:
        """Whether both sides give the same, in evaluation, where arguments are others than in any example call."""
        base = max(self.bound, key=lambda bound: sum(_is_same(bound.arguments[n], c.value) for n, c in choices.items()))
        arguments = {**base.arguments, **{name: choice.value for name, choice in choices.items()}}
        bound = inspect.BoundArguments(self.signature, arguments)  # type: ignore[arg-type]
        given = bound.args, dict(bound.kwargs)
        if self.sides.precision == "float64":
            given = pytree.tree_map(in_float64, given)
        return any(self._agree(given))

    def _agree(self, given: Given) -> Iterator[bool]:
        """Whether both sides give the same, for each way in which the axes of what is given may lie."""
        from flax import nnx

        sides, made = self.sides, self.cases[0]
        try:
            with sides.torch_dtype():
                theirs = torch_outputs(sides.module, given, False, sides.seed)
            with cpu_precision(sides.precision == "float64" or made.needs_x64):
                model = nnx.merge(*sides.written.parts(False), copy=True)
                results = made.boundary.call(model, made.to_flax(*given))
                for case in self.cases:
                    if case.boundary.gives(results):
                        ours = [leaf for leaf in pytree.tree_leaves(case.to_torch(results)) if hasattr(leaf, "shape")]
                        yield len(theirs) == len(ours) and all(map(self._are_close, theirs, ours))
        except Exception:  # either side refuses it, or it cannot be compared: then it is not known to be right
            return

    def _are_close(self, theirs: Any, ours: Any) -> bool:
        return difference(np.asarray(theirs), np.asarray(ours)) <= self.sides.limits.forward


def _said(value: Any) -> syntax.Expr | None:
    """A constant as source; None for what is none."""
    try:
        return None if any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(value)) else literal(value)
    except NoSource:
        return None


def _shape(value: Any) -> Any:
    """What tells arrays apart: their axes; None for what is none."""
    leaves = pytree.tree_leaves(value)
    return tuple(leaf.ndim for leaf in leaves) if leaves and all(isinstance(x, torch.Tensor) for x in leaves) else None


def _is_same(one: Any, other: Any) -> bool:
    """Whether two arguments are one object, or one constant."""
    said = _said(one)
    return one is other or (said is not None and said == _said(other))
