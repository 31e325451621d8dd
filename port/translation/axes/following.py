"""Follow a traced computation operation by operation, and merge the axes that are the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from port.translation.axes.classes import Axis, AxisClasses
from port.translation.codegen.marked_source import CallMark, mark_of

Axes = tuple[Axis, ...]


@dataclass(frozen=True)
class FollowedArray:
    """What is known about an array.

    Attributes:
        axes: its axes.
        by_inputs: whether it depends on the values of the model's inputs.
        is_weight: whether it is a parameter, in any layout.
        is_projected: whether it is a product of a weight and activations, or rows of a table; with or without a bias.
        is_looked_up: whether it is rows of a table.
        is_after_product: whether a product with a weight leads to it, since the last marked call.
        is_after_lookup: whether rows of a table lead to it, since the last marked call.
        by: the axes of that weight, if it is projected.
    """

    axes: Axes
    by_inputs: bool = False
    is_weight: bool = False
    is_projected: bool = False
    is_looked_up: bool = False
    is_after_product: bool = False
    is_after_lookup: bool = False
    by: Axes = ()


@dataclass(frozen=True)
class CallResult:
    """The result of a marked call of a layer that projects its input or looks up rows.

    Attributes:
        axes: of the result, or of the first in a tuple; None if the call returns another structure.
        by: the axes of the layer's weights.
        is_lookup: whether the result is rows of a table, or sums of them.
    """

    axes: Axes | None
    by: Axes
    is_lookup: bool


class Following:
    """Follow the equations of a jaxpr.

    Args:
        classes: the classes of axes, filled on the way.

    Attributes:
        calls: number of a call in a marked source → its results, one each time it is traced.
    """

    def __init__(self, classes: AxisClasses) -> None:
        self.classes = classes
        self.calls: dict[int, list[CallResult]] = {}
        self._known: dict[Any, FollowedArray] = {}

    def follow(self, jaxpr: Any, inputs: Sequence[FollowedArray]) -> list[FollowedArray]:
        """Return the outputs of an open jaxpr for these inputs; its constants get new axes."""
        for variable in jaxpr.constvars:
            self._known[variable] = FollowedArray(self.classes.new(variable.aval.shape))
        self._known |= zip(jaxpr.invars, inputs, strict=True)
        for equation in jaxpr.eqns:
            outputs = self._step(equation, [self._of(each) for each in equation.invars])
            self._known |= zip(equation.outvars, outputs, strict=True)
        return [self._of(each) for each in jaxpr.outvars]

    def _of(self, atom: Any) -> FollowedArray:
        if hasattr(atom, "val"):  # a literal
            return FollowedArray(self.classes.new(getattr(atom.aval, "shape", ())))
        return self._known[atom]

    def _step(self, equation: Any, inputs: list[FollowedArray]) -> list[FollowedArray]:
        from port.nn.flat_trace import called_jaxpr

        name = equation.primitive.name
        if name == "scan":
            return self._scan(equation, inputs)
        if (called := called_jaxpr(equation)) is not None:
            outputs = self.follow(called.jaxpr, inputs)
            mark = mark_of(equation.params.get("name"))
            return outputs if mark is None else self._at_mark(mark, outputs, inputs[len(outputs) :])
        axes = [self.classes.new(getattr(each.aval, "shape", ())) for each in equation.outvars]
        handler = getattr(self, f"_{name.replace('-', '_')}", None) or self._by_shape
        handler(equation, [each.axes for each in inputs], axes)
        if name == "dot_general":
            self._record_product(equation, inputs)
        elif name == "gather":
            self._record_lookup(equation, inputs)
        known = FollowedArray(
            (),
            by_inputs=any(each.by_inputs for each in inputs),
            is_weight=name in _AS_WEIGHTS and inputs[0].is_weight,
            is_after_product=any(each.is_after_product for each in inputs),
            is_after_lookup=any(each.is_after_lookup for each in inputs),
        )
        if not known.is_weight and _is_projected(name, inputs):
            if name in _PROJECTIONS:
                by = next(each.axes for each in inputs if each.is_weight)
                if name == "gather":
                    known = replace(known, is_looked_up=True, is_after_lookup=True)
                else:
                    known = replace(known, is_after_product=True)
                known = replace(known, is_projected=True, by=by)
            else:
                before = next(each for each in inputs if each.is_projected)
                known = replace(before, by_inputs=known.by_inputs)
        return [replace(known, axes=each) for each in axes]

    def _at_mark(
        self, mark: CallMark, outputs: list[FollowedArray], weights: list[FollowedArray]
    ) -> list[FollowedArray]:
        """Record the results of a marked call, if it projects. For nested calls the innermost counts."""
        results = self.calls.setdefault(mark.number, [])
        axes = outputs[0].axes if mark.has_first else None
        is_product = any(each.is_after_product for each in outputs)
        is_lookup = any(each.is_after_lookup for each in outputs)
        if any(len(each.axes) > 1 for each in weights) and (is_product or is_lookup):
            by = tuple(axis for each in weights for axis in each.axes)
            results.append(CallResult(axes, by, is_lookup=is_lookup and not is_product))
        elif mark.has_first and outputs[0].is_projected:
            results.append(CallResult(axes, outputs[0].by, outputs[0].is_looked_up))
        return [FollowedArray(each.axes, by_inputs=each.by_inputs, is_weight=each.is_weight) for each in outputs]

    def _record_lookup(self, equation: Any, inputs: list[FollowedArray]) -> None:
        """Record the axes of a table along which rows are looked up."""
        table, indices = inputs[0], inputs[1]
        if table.is_weight:
            for place in equation.params["dimension_numbers"].collapsed_slice_dims:
                axis = table.axes[place]
                self.classes.looked_up[axis] = indices.by_inputs or self.classes.looked_up.get(axis, False)

    def _record_product(self, equation: Any, inputs: list[FollowedArray]) -> None:
        """Record the weight's axes of a projection, or the heads and their width of a product of activations."""
        summed, shared = equation.params["dimension_numbers"]
        weights = [place for place, each in enumerate(inputs) if each.is_weight]
        if len(weights) == 1:
            (place,) = weights
            axes = inputs[place].axes
            taken = tuple(axes[each] for each in summed[place])
            self.classes.products.append((taken, tuple(axis for axis in axes if axis not in taken)))
        elif not weights and not any(len(each.by) > _MATRIX for each in inputs):  # a bilinear form has no heads
            self.classes.shared |= {inputs[0].axes[each] for each in shared[0]}
            self.classes.summed |= {inputs[0].axes[each] for each in summed[0]}

    def _scan(self, equation: Any, inputs: list[FollowedArray]) -> list[FollowedArray]:
        body = equation.params["jaxpr"].jaxpr
        # Versions of jax count the carried arrays by different parameters. Outside of the body, what goes in or comes
        # out step by step has one axis more.
        carried = sum(map(_has_same_rank, equation.outvars, body.outvars))
        fixed = sum(map(_has_same_rank, equation.invars, body.invars))
        consts = fixed - carried
        inside = [*inputs[:fixed], *(replace(each, axes=each.axes[1:]) for each in inputs[fixed:])]
        results = self.follow(body, inside)
        for before, after in zip(inputs[consts:fixed], results[:carried], strict=True):
            self.classes.join_all(before.axes, after.axes)
        shapes = [each.aval.shape[:1] for each in equation.outvars[carried:]]
        stacked = zip(shapes, results[carried:], strict=True)
        return [
            *results[:carried],
            *(replace(each, axes=(*self.classes.new(first), *each.axes)) for first, each in stacked),
        ]

    def _by_shape(self, equation: Any, inputs: list[Axes], outputs: list[Axes]) -> None:
        """Follow an operation without a rule: it is taken as element by element if all shapes broadcast."""
        if equation.primitive.name in _BY_OTHER_RULES:
            return
        *arrays, result = [axes for axes in (*inputs, *outputs) if axes] or [()]
        sizes = [[self.classes.sizes[axis] for axis in axes] for axes in (result, *arrays)]
        if all(len(each) == len(sizes[0]) and all(map(_broadcasts, each, sizes[0])) for each in sizes):
            for axes in arrays:
                self.classes.join_all(axes, result)

    def _dot_general(self, equation: Any, inputs: list[Axes], outputs: list[Axes]) -> None:
        (summed, shared) = equation.params["dimension_numbers"]
        for places in (summed, shared):
            self.classes.join_all([inputs[0][each] for each in places[0]], [inputs[1][each] for each in places[1]])
        free = [
            axis
            for axes, over, by in zip(inputs, summed, shared, strict=True)
            for place, axis in enumerate(axes)
            if place not in (*over, *by)
        ]
        self.classes.join_all([*(inputs[0][each] for each in shared[0]), *free], outputs[0])

    def _conv_general_dilated(self, equation: Any, inputs: list[Axes], outputs: list[Axes]) -> None:
        """Follow batch and channels of a convolution; positions in and out are different axes."""
        numbers, (lhs, rhs), out = equation.params["dimension_numbers"], inputs, outputs[0]
        (batch, features, *_), (made, taken, *_) = numbers.lhs_spec, numbers.rhs_spec
        self.classes.join(lhs[batch], out[numbers.out_spec[0]])
        self.classes.join(rhs[made], out[numbers.out_spec[1]])
        groups = equation.params["feature_group_count"]
        if groups == 1:
            self.classes.join(lhs[features], rhs[taken])
            self.classes.channels |= {rhs[taken]}
        elif groups == self.classes.sizes[lhs[features]] == self.classes.sizes[rhs[made]]:
            self.classes.join(lhs[features], rhs[made])  # depthwise
        else:  # a transposed kernel holds all input channels in one axis, split into groups of those taken
            for whole in self.classes.products_with(rhs[taken]):
                self.classes.join(lhs[features], whole)
                self.classes.channels |= {whole}
        self.classes.channels |= {rhs[made]}

    def _broadcast_in_dim(self, equation: Any, inputs: list[Axes], outputs: list[Axes]) -> None:
        places = equation.params["broadcast_dimensions"]
        self.classes.join_all(inputs[0], [outputs[0][place] for place in places])

    def _transpose(self, equation: Any, inputs: list[Axes], outputs: list[Axes]) -> None:
        self.classes.join_all([inputs[0][place] for place in equation.params["permutation"]], outputs[0])

    def _squeeze(self, equation: Any, inputs: list[Axes], outputs: list[Axes]) -> None:
        self._join_kept(inputs[0], equation.params["dimensions"], outputs[0])

    def _reduced(self, equation: Any, inputs: list[Axes], outputs: list[Axes]) -> None:
        self._join_kept(inputs[0], equation.params["axes"], outputs[0])

    _reduce_sum = _reduce_max = _reduce_min = _reduce_prod = _reduce_and = _reduce_or = _argmax = _argmin = _reduced

    def _join_kept(self, axes: Axes, dropped: Sequence[int], output: Axes) -> None:
        self.classes.join_all([axis for place, axis in enumerate(axes) if place not in dropped], output)

    def _concatenate(self, equation: Any, inputs: list[Axes], outputs: list[Axes]) -> None:
        along = equation.params["dimension"]
        for axes in inputs:
            self.classes.join_all(*(tuple(each[:along] + each[along + 1 :]) for each in (axes, outputs[0])))
        self.classes.joined[outputs[0][along]] = [axes[along] for axes in inputs]

    def _cut(self, equation: Any, inputs: list[Axes], outputs: list[Axes]) -> None:
        """Follow slices: an axis taken whole stays the same, of another the slice has a part."""
        for result in outputs:
            for axis, part in zip(inputs[0], result, strict=True):
                self.classes.join(axis, part)
                if self.classes.sizes[part] < self.classes.sizes[axis]:
                    self.classes.parts.setdefault(axis, []).append(part)

    _slice = _dynamic_slice = _split = _cut

    def _pad(self, equation: Any, inputs: list[Axes], outputs: list[Axes]) -> None:
        self.classes.join_all(inputs[0], outputs[0])

    _dynamic_update_slice = _pad

    def _gather(self, equation: Any, inputs: list[Axes], outputs: list[Axes]) -> None:
        numbers = equation.params["dimension_numbers"]
        operand, indices = inputs[0], inputs[1]
        dropped = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
        kept = [axis for place, axis in enumerate(operand) if place not in dropped]
        self.classes.join_all(kept, [outputs[0][place] for place in numbers.offset_dims])
        rest = [axis for place, axis in enumerate(outputs[0]) if place not in numbers.offset_dims]
        self.classes.join_all(indices[:-1], rest)

    def _scatter(self, equation: Any, inputs: list[Axes], outputs: list[Axes]) -> None:
        numbers = equation.params["dimension_numbers"]
        operand, _, updates = inputs
        self.classes.join_all(operand, outputs[0])
        dropped = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
        kept = [axis for place, axis in enumerate(operand) if place not in dropped]
        self.classes.join_all(kept, [updates[place] for place in numbers.update_window_dims])

    _scatter_add = _scatter_mul = _scatter_min = _scatter_max = _scatter

    def _reshape(self, equation: Any, inputs: list[Axes], outputs: list[Axes]) -> None:
        for some, others in _groups(self.classes, inputs[0], outputs[0]):
            if len(some) == len(others) == 1:
                self.classes.join(some[0], others[0])
            elif len(some) == 1:
                self.classes.cut(some[0], others)
            elif len(others) == 1:
                self.classes.cut(others[0], some)


def _groups(classes: AxisClasses, before: Axes, after: Axes) -> Iterator[tuple[list[Axis], list[Axis]]]:
    """Yield the smallest groups of axes before and after a reshape that hold the same elements; none of size 1."""
    left = [axis for axis in before if classes.sizes[axis] != 1]
    right = [axis for axis in after if classes.sizes[axis] != 1]
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


def _has_same_rank(one: Any, other: Any) -> bool:
    return len(one.aval.shape) == len(other.aval.shape)


def _broadcasts(size: int, result: int) -> bool:
    return size in (1, result)


def _is_projected(name: str, inputs: Sequence[FollowedArray]) -> bool:
    if name in _PROJECTIONS:
        return inputs[0].is_weight != inputs[1].is_weight
    values = inputs[1:] if name == "select_n" else inputs  # the mask may be anything
    others = [each for each in values if not each.is_projected]
    return name in _KEEPS and len(others) < len(values) and all(each.is_weight or not each.by_inputs for each in others)


_MATRIX = 2
"""Axes of the weight of a linear layer."""
_PROJECTIONS = ("dot_general", "conv_general_dilated", "gather")
_KEEPS = ("add", "mul", "select_n", "convert_element_type", "stop_gradient")
"""Operations whose result is still a projection, if their other operands are weights, constants or masks."""
_AS_WEIGHTS = (
    "convert_element_type",
    "transpose",
    "copy",
    "reshape",
    "stop_gradient",
    "squeeze",
    "broadcast_in_dim",
    "rev",
    "split",
)
"""Operations whose result is still the weight, in another layout, or parts of it."""
_BY_OTHER_RULES = ("sort", "while", "cond")
"""Operations whose output axes are not their inputs' axes, whatever the shapes are."""
