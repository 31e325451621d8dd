"""A traced computation, followed operation by operation: which axes of its arrays are one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from port.translation.axes.classes import Axis, AxisClasses
from port.translation.codegen.marked_source import site_of

Axes = tuple[Axis, ...]


@dataclass(frozen=True)
class FollowedArray:
    """What is known of an array.

    Attributes:
        axes: of it.
        by_inputs: whether it depends on the values that the model is given.
        is_weight: whether it is a parameter, however laid out.
        is_projected: whether it is what a parameter makes of activations, or gives for indices; with a bias or without.
        is_looked_up: whether it is the latter.
        by: the axes of that parameter, if it is projected.
    """

    axes: Axes
    by_inputs: bool = False
    is_weight: bool = False
    is_projected: bool = False
    is_looked_up: bool = False
    by: Axes = ()


class Following:
    """Goes through a jaxpr.

    Args:
        classes: filled as it goes.

    Attributes:
        sites: number of a call in a marked source → what was projected, or looked up, there.
    """

    def __init__(self, classes: AxisClasses) -> None:
        self.classes = classes
        self.sites: dict[int, list[FollowedArray]] = {}
        self._known: dict[Any, FollowedArray] = {}

    def follow(self, jaxpr: Any, given: Sequence[FollowedArray]) -> list[FollowedArray]:
        """What a jaxpr gives for what it is given; an open one, whose constants are new."""
        for variable in jaxpr.constvars:
            self._known[variable] = FollowedArray(self.classes.new(variable.aval.shape))
        self._known |= zip(jaxpr.invars, given, strict=True)
        for equation in jaxpr.eqns:
            made = self._step(equation, [self._of(each) for each in equation.invars])
            self._known |= zip(equation.outvars, made, strict=True)
        return [self._of(each) for each in jaxpr.outvars]

    def _of(self, atom: Any) -> FollowedArray:
        if hasattr(atom, "val"):  # a literal
            return FollowedArray(self.classes.new(getattr(atom.aval, "shape", ())))
        return self._known[atom]

    def _step(self, equation: Any, given: list[FollowedArray]) -> list[FollowedArray]:
        name = equation.primitive.name
        if name == "scan":
            return self._scan(equation, given)
        inner = _inner(equation)
        if inner is not None and len(inner.invars) == len(given):
            made = self.follow(inner, given)
            return made if (site := site_of(equation.params.get("name"))) is None else self._at_site(site, made)
        axes = [self.classes.new(getattr(each.aval, "shape", ())) for each in equation.outvars]
        handler = getattr(self, f"_{name.replace('-', '_')}", None) or self._by_shape
        handler(equation, [each.axes for each in given], axes)
        if name in ("dot_general", "gather"):
            self._note_of(equation, given)
        known = FollowedArray((), any(each.by_inputs for each in given), name in _AS_WEIGHTS and given[0].is_weight)
        if not known.is_weight and _is_projected(name, given):
            if name in _PROJECTIONS:
                by = next(each.axes for each in given if each.is_weight)
                known = replace(known, is_projected=True, is_looked_up=name == "gather", by=by)
            else:
                before = next(each for each in given if each.is_projected)
                known = replace(before, by_inputs=known.by_inputs)
        return [replace(known, axes=each) for each in axes]

    def _at_site(self, site: int, made: list[FollowedArray]) -> list[FollowedArray]:
        """What a call in a marked source gives. The innermost is meant."""
        if any(each.is_projected for each in made):
            self.sites.setdefault(site, []).extend(each for each in made if each.is_projected)
        return [replace(each, is_projected=False, is_looked_up=False, by=()) for each in made]

    def _note_of(self, equation: Any, given: list[FollowedArray]) -> None:
        """What is done along the axes of a product, or of a table."""
        numbers = equation.params["dimension_numbers"]
        if equation.primitive.name == "gather":
            if given[0].is_weight:
                for place in numbers.collapsed_slice_dims:
                    axis = given[0].axes[place]
                    self.classes.looked_up[axis] = given[1].by_inputs or self.classes.looked_up.get(axis, False)
        elif not any(each.is_weight for each in given):
            summed, shared = numbers
            self.classes.shared |= {given[0].axes[each] for each in shared[0]}
            self.classes.summed |= {given[0].axes[each] for each in summed[0]}

    def _scan(self, equation: Any, given: list[FollowedArray]) -> list[FollowedArray]:
        consts, carried = equation.params["num_consts"], equation.params["num_carry"]
        fixed = consts + carried
        inside = [*given[:fixed], *(replace(each, axes=each.axes[1:]) for each in given[fixed:])]
        results = self.follow(equation.params["jaxpr"].jaxpr, inside)
        for before, after in zip(given[consts:fixed], results[:carried], strict=True):
            self.classes.join_all(before.axes, after.axes)
        shapes = [each.aval.shape[:1] for each in equation.outvars[carried:]]
        stacked = zip(shapes, results[carried:], strict=True)
        return [
            *results[:carried],
            *(replace(each, axes=(*self.classes.new(first), *each.axes)) for first, each in stacked),
        ]

    def _by_shape(self, equation: Any, given: list[Axes], made: list[Axes]) -> None:
        """An operation of which nothing is said: element by element, if all has one shape."""
        if equation.primitive.name in _BY_OTHER_RULES:
            return
        *arrays, result = [axes for axes in (*given, *made) if axes] or [()]
        sizes = [[self.classes.sizes[axis] for axis in axes] for axes in (result, *arrays)]
        if all(len(each) == len(sizes[0]) and all(map(_goes_along, each, sizes[0])) for each in sizes):
            for axes in arrays:
                self.classes.join_all(axes, result)

    def _dot_general(self, equation: Any, given: list[Axes], made: list[Axes]) -> None:
        (summed, shared) = equation.params["dimension_numbers"]
        for places in (summed, shared):
            self.classes.join_all([given[0][each] for each in places[0]], [given[1][each] for each in places[1]])
        free = [
            axis
            for axes, over, by in zip(given, summed, shared, strict=True)
            for place, axis in enumerate(axes)
            if place not in (*over, *by)
        ]
        self.classes.join_all([*(given[0][each] for each in shared[0]), *free], made[0])

    def _conv_general_dilated(self, equation: Any, given: list[Axes], made: list[Axes]) -> None:
        """A convolution: its batch, and its channels, where they are not in groups. Places are others."""
        numbers, (lhs, rhs), out = equation.params["dimension_numbers"], given, made[0]
        (batch, features, *_), (into, taken, *_) = numbers.lhs_spec, numbers.rhs_spec
        self.classes.join(lhs[batch], out[numbers.out_spec[0]])
        self.classes.join(rhs[into], out[numbers.out_spec[1]])
        if equation.params["feature_group_count"] == 1:
            self.classes.join(lhs[features], rhs[taken])
            self.classes.channels |= {rhs[taken]}
        elif (
            equation.params["feature_group_count"] == self.classes.sizes[lhs[features]] == self.classes.sizes[rhs[into]]
        ):
            self.classes.join(lhs[features], rhs[into])  # each by itself
        self.classes.channels |= {rhs[into]}

    def _broadcast_in_dim(self, equation: Any, given: list[Axes], made: list[Axes]) -> None:
        places = equation.params["broadcast_dimensions"]
        self.classes.join_all(given[0], [made[0][place] for place in places])

    def _transpose(self, equation: Any, given: list[Axes], made: list[Axes]) -> None:
        self.classes.join_all([given[0][place] for place in equation.params["permutation"]], made[0])

    def _squeeze(self, equation: Any, given: list[Axes], made: list[Axes]) -> None:
        self._without(given[0], equation.params["dimensions"], made[0])

    def _reduced(self, equation: Any, given: list[Axes], made: list[Axes]) -> None:
        self._without(given[0], equation.params["axes"], made[0])

    _reduce_sum = _reduce_max = _reduce_min = _reduce_prod = _reduce_and = _reduce_or = _argmax = _argmin = _reduced

    def _without(self, axes: Axes, places: Sequence[int], made: Axes) -> None:
        self.classes.join_all([axis for place, axis in enumerate(axes) if place not in places], made)

    def _concatenate(self, equation: Any, given: list[Axes], made: list[Axes]) -> None:
        along = equation.params["dimension"]
        for axes in given:
            self.classes.join_all(*(tuple(each[:along] + each[along + 1 :]) for each in (axes, made[0])))

    def _cut(self, equation: Any, given: list[Axes], made: list[Axes]) -> None:
        """Slices: the axes that are whole stay the same, of the others they are parts."""
        for result in made:
            for axis, part in zip(given[0], result, strict=True):
                self.classes.join(axis, part)
                if self.classes.sizes[part] < self.classes.sizes[axis]:
                    self.classes.parts.setdefault(axis, []).append(part)

    _slice = _dynamic_slice = _split = _cut

    def _pad(self, equation: Any, given: list[Axes], made: list[Axes]) -> None:
        self.classes.join_all(given[0], made[0])

    _dynamic_update_slice = _pad

    def _gather(self, equation: Any, given: list[Axes], made: list[Axes]) -> None:
        numbers = equation.params["dimension_numbers"]
        operand, indices = given[0], given[1]
        dropped = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
        kept = [axis for place, axis in enumerate(operand) if place not in dropped]
        self.classes.join_all(kept, [made[0][place] for place in numbers.offset_dims])
        rest = [axis for place, axis in enumerate(made[0]) if place not in numbers.offset_dims]
        self.classes.join_all(indices[:-1], rest)

    def _reshape(self, equation: Any, given: list[Axes], made: list[Axes]) -> None:
        for some, others in _groups(self.classes, given[0], made[0]):
            if len(some) == len(others) == 1:
                self.classes.join(some[0], others[0])
            elif len(some) == 1:
                self.classes.cut(some[0], others)
            elif len(others) == 1:
                self.classes.cut(others[0], some)


def _groups(classes: AxisClasses, given: Axes, made: Axes) -> Iterator[tuple[list[Axis], list[Axis]]]:
    """The axes before and after a reshape that are the same elements, the fewest together; none of one element."""
    left = [axis for axis in given if classes.sizes[axis] != 1]
    right = [axis for axis in made if classes.sizes[axis] != 1]
    while left and right:
        some, others = [left.pop(0)], [right.pop(0)]
        one, other = classes.sizes[some[0]], classes.sizes[others[0]]
        while one != other and (left if one < other else right):
            if one < other:
                some.append(left.pop(0))
                one *= classes.sizes[some[-1]]
            else:
                others.append(right.pop(0))
                other *= classes.sizes[others[-1]]
        yield some, others


def _goes_along(size: int, result: int) -> bool:
    return size in (1, result)


def _inner(equation: Any) -> Any:
    """The jaxpr of a call: of a jitted function, of one with its own gradient, of one that is computed again."""
    for name in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        if (found := equation.params.get(name)) is not None:
            return getattr(found, "jaxpr", found)
    return None


def _is_projected(name: str, given: Sequence[FollowedArray]) -> bool:
    if name in _PROJECTIONS:
        return given[0].is_weight != given[1].is_weight
    values = given[1:] if name == "select_n" else given  # the mask may be whatever it is
    others = [each for each in values if not each.is_projected]
    return name in _KEEPS and len(others) < len(values) and all(each.is_weight or not each.by_inputs for each in others)


_PROJECTIONS = ("dot_general", "conv_general_dilated", "gather")
_KEEPS = ("add", "mul", "select_n", "convert_element_type", "stop_gradient")
"""What leaves a projection one, where all else that goes in are weights, constants or masks."""
_AS_WEIGHTS = ("convert_element_type", "transpose", "copy", "reshape", "stop_gradient", "squeeze", "broadcast_in_dim")
"""What leaves a weight one: it is the same, otherwise laid out."""
_BY_OTHER_RULES = ("scatter", "scatter-add", "sort", "while", "cond")
"""Operations whose axes are not those of what goes in, whatever the shapes are."""
