"""Try combinations of arguments that no example call has, and refuse those for which the sides differ."""

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
"""The greatest number of combinations that are tried."""
_NUMBERS = (lambda number: 10 * number + 1, lambda number: -number, lambda number: 0 * number)
"""Other values to try for a numeric argument: large, negative and zero."""


def refused_combinations(
    root: torch.nn.Module, cases: Sequence[WrittenModule], calls: Sequence[Given], *, check: bool
) -> tuple[Entangled, ...]:
    """Return the arguments of which only some combinations are supported.

    Args:
        root: the original module.
        cases: the generated module, once per example call.
        calls: the example calls.
        check: whether to try combinations that no call has, by running both sides in evaluation. Otherwise all of them
            are refused.
    """
    if len(calls) < 2:
        return ()
    return _Combinations(root, cases, calls, check).refused()


@dataclass(frozen=True)
class _Choice:
    """An argument's value in some example calls.

    Attributes:
        seen: the value as the guard in the source sees it: a constant, a rank, or whether it is None.
        value: the value itself.
    """

    seen: syntax.Expr
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
            self._collect(name, [bound.arguments[name] for bound in self.bound])

    @cached_property
    def sides(self) -> OriginalAndWritten:
        """Both sides, created when the first combination is tried."""
        return OriginalAndWritten(self.root, self.cases[0], *self.calls[0])

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments:
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound

    def _collect(self, name: str, values: list[Any]) -> None:
        """Collect an argument's values in the example calls, if they differ."""
        own: syntax.Expr = name_of(name)
        ranks = {value.ndim if isinstance(value, torch.Tensor) else None for value in values}
        constants = [_as_constant(value) for value in values]
        if all(value is not None for value in constants):
            asked, seen = own, constants
        elif None not in ranks:
            asked, seen = code("p.ndim", p=own), [literal(value.ndim) for value in values]
        else:
            asked, seen = code("p is None", p=own), [literal(value is None) for value in values]
        if len(set(seen)) > 1:
            self.asked[name] = asked
            known: dict[Any, _Choice] = {}
            for one, value in zip(seen, values, strict=True):
                assert one is not None
                known.setdefault((one, _shape(value)), _Choice(one, value))
            self.choices[name] = list(known.values())

    def refused(self) -> tuple[Entangled, ...]:
        names = list(self.choices)
        called = [tuple(self._seen(name, case) for name in names) for case in range(len(self.bound))]
        every = dict.fromkeys(itertools.product(*({each.seen: None for each in self.choices[n]} for n in names)))
        wrong = dict.fromkeys(every if not self.check or len(every) > _MOST else ())
        for choices in () if wrong else itertools.product(*self.choices.values()):
            tried = tuple(choice.seen for choice in choices)
            is_known = tried in called or tried in wrong
            if not is_known and not self._is_right(dict(zip(names, choices, strict=True))):
                wrong[tried] = None
        allowed = [each for each in every if each in called or each not in wrong]
        others = [each for each in every if each not in allowed]
        found = [self._apart(names, allowed, others)] if others else []
        taken = {name for each in found for name in each.names}
        return (*found, *(self._alone(name) for name in names if name not in taken and not self._is_free(name)))

    def _seen(self, name: str, case: int) -> syntax.Expr:
        value = self.bound[case].arguments[name]

        def is_alike(other: Any) -> bool:
            return _is_same(other, value) or (_shape(value) is not None and _shape(other) == _shape(value))

        return next(each.seen for each in self.choices[name] if is_alike(each.value))

    def _apart(
        self, names: list[str], allowed: list[tuple[syntax.Expr, ...]], wrong: list[tuple[syntax.Expr, ...]]
    ) -> Entangled:
        """Return the fewest arguments that separate the allowed combinations from the others."""
        for count in range(1, len(names) + 1):
            for places in itertools.combinations(range(len(names)), count):
                right = dict.fromkeys(tuple(each[place] for place in places) for each in allowed)
                if not any(tuple(each[place] for place in places) in right for each in wrong):
                    some = tuple(names[place] for place in places)
                    return Entangled(some, tuple(self.asked[name] for name in some), tuple(right))
        raise AssertionError("all arguments together separate allowed combinations from others")

    def _alone(self, name: str) -> Entangled:
        seen = dict.fromkeys((choice.seen,) for choice in self.choices[name])
        return Entangled((name,), (self.asked[name],), tuple(seen))

    def _is_free(self, name: str) -> bool:
        """Whether an argument may have any value: an array, a bool seen both ways, a number for which others agree."""
        values = [choice.value for choice in self.choices[name]]
        constants = [value for value in values if value is not None and not isinstance(value, torch.Tensor)]
        if not constants or all(isinstance(value, bool) for value in constants):
            return {True, False} <= set(constants) if constants else True
        if not self.check or not all(type(value) in (int, float) for value in constants):
            return False
        others = [other(value) for value in constants for other in _NUMBERS]
        return all(self._is_right({name: _Choice(self.asked[name], other)}) for other in others)

    def _is_right(self, choices: Mapping[str, _Choice]) -> bool:
        """Whether both sides agree, in evaluation, with arguments that no example call has."""
        base = max(self.bound, key=lambda bound: sum(_is_same(bound.arguments[n], c.value) for n, c in choices.items()))
        arguments = {**base.arguments, **{name: choice.value for name, choice in choices.items()}}
        bound = inspect.BoundArguments(self.signature, arguments)  # type: ignore[arg-type]
        call = bound.args, dict(bound.kwargs)
        if self.sides.precision == "float64":
            call = pytree.tree_map(in_float64, call)
        return any(self._agree(call))

    def _agree(self, call: Given) -> Iterator[bool]:
        """Yield whether both sides agree, for each layout that the results may have."""
        from flax import nnx

        sides, made = self.sides, self.cases[0]
        try:
            with sides.torch_dtype():
                theirs = torch_outputs(sides.module, call, False, sides.seed)
            with cpu_precision(sides.precision == "float64" or made.needs_x64):
                model = nnx.merge(*sides.written.parts(False), copy=True)
                results = made.boundary.call(model, made.to_flax(*call))
                for case in self.cases:
                    if case.boundary.gives(results):
                        ours = [leaf for leaf in pytree.tree_leaves(case.to_torch(results)) if hasattr(leaf, "shape")]
                        yield len(theirs) == len(ours) and all(map(self._are_close, theirs, ours))
        except Exception:  # one side raises an error, or the results cannot be compared: not known to agree
            return

    def _are_close(self, theirs: Any, ours: Any) -> bool:
        return difference(np.asarray(theirs), np.asarray(ours)) <= self.sides.limits.forward


def _as_constant(value: Any) -> syntax.Expr | None:
    """Return a constant as an expression; None for other values."""
    try:
        return None if any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(value)) else literal(value)
    except NoSource:
        return None


def _shape(value: Any) -> Any:
    """Return the ranks of arrays; None if the value is not made of arrays only."""
    leaves = pytree.tree_leaves(value)
    return tuple(leaf.ndim for leaf in leaves) if leaves and all(isinstance(x, torch.Tensor) for x in leaves) else None


def _is_same(one: Any, other: Any) -> bool:
    """Whether two arguments are the same object, or equal constants."""
    constant = _as_constant(one)
    return one is other or (constant is not None and constant == _as_constant(other))
