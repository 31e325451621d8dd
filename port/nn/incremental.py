"""A causal language model read token by token: its own computation, of which the keys and values of tokens are kept.

A transformation of JAX's, as `jax.grad` is one. The model is traced at the length that a text may have. What does not
depend on its tokens, as masks and positions, is computed as it stands; of the rest only the rows of those tokens that
are read. Where one token's row meets those of the others, in a product of matrices, the others' come from a cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.extend.core import ClosedJaxpr, Literal

from port.errors import UsageError
from port.nn.token_cache import TokenCache

TRIED = 7
"""Tokens of a text with which a model is traced, to see which caches it needs."""
# fmt: off
ELEMENTWISE = frozenset((
    "abs", "add", "add_any", "and", "cbrt", "ceil", "clamp", "convert_element_type", "copy",
    "copy_p", "cos", "cosh", "div", "eq", "erf", "erf_inv", "erfc", "exp",
    "exp2", "expm1", "floor", "ge", "gt", "integer_pow", "is_finite", "le", "log",
    "log1p", "logistic", "lt", "max", "min", "mul", "ne", "neg", "nextafter",
    "not", "or", "pow", "reduce_precision", "rem", "round", "rsqrt", "select_n", "sign",
    "sin", "sinh", "sqrt", "square", "stop_gradient", "sub", "tan", "tanh", "xor",
))
REDUCTIONS = frozenset((
    "reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or", "argmax", "argmin",
))
# fmt: on
CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
    "checkpoint": "jaxpr",
    "remat": "jaxpr",
    "remat2": "jaxpr",
}
"""Operations that call others, and where these stand."""
Axes = tuple[int, ...]


class Cached(nnx.Module):
    """A model as `port.nn.generate` takes it: called as ``model(ids, position, places)``, with caches.

    Args:
        model: called as ``model(ids)``, (batch, tokens) → logits (batch, tokens, vocabulary), or of the last token
            alone, (batch, 1, vocabulary); causal. What it gives beside them is left out: the first array of a tuple or
            a dict is taken.

    Raises:
        UsageError: tokens meet in it otherwise than in products of matrices; says where.
    """

    def __init__(self, model: nnx.Module) -> None:
        self.model = model
        reading = _Reading(_traced(model, 2, TRIED), _no_cache, 0)
        jax.eval_shape(reading.run, jnp.zeros((2, 1), int))
        self.caches = nnx.List([TokenCache() for _ in range(reading.cached)])

    def __call__(self, ids: jax.Array, position: jax.Array | int, places: jax.Array) -> jax.Array:
        """Logits of tokens, the first of which stands at a position, as `port.nn.generate` asks for them."""
        batch, room = ids.shape[0], len(places)

        def cache(number: int, tokens: jax.Array, axis: int) -> jax.Array:
            last = jnp.moveaxis(tokens, axis, -2)
            return jnp.moveaxis(self.caches[number](last, position, places), -2, axis)

        return _Reading(_traced(self.model, batch, room), cache, position).run(ids)


def cached(model: nnx.Module) -> Cached:
    """A causal model with caches; see `Cached`."""
    return Cached(model)


@dataclass(frozen=True)
class _Rows:
    """An array that depends on tokens, of which it has the rows of those that are read.

    Attributes:
        array: itself.
        tokens: its axis of these tokens; None where it is of the last alone.
        others: its axis of all tokens, that each of these may see; None without.
    """

    array: jax.Array
    tokens: int | None
    others: int | None = None


@dataclass(frozen=True)
class _Equation:
    primitive: Any
    inputs: list[Any]
    outputs: list[Any]
    params: dict[str, Any]


@dataclass(frozen=True)
class _Traced:
    """What a model computes at a length, without calls."""

    length: int
    ids: Any
    equations: list[_Equation]
    given: Any
    constants: dict[Any, Any]


def _traced(model: nnx.Module, batch: int, length: int) -> _Traced:
    def forward(ids: jax.Array) -> jax.Array:
        return jax.tree.leaves(model(ids))[0]  # type: ignore[operator]

    closed = jax.make_jaxpr(forward)(jnp.zeros((batch, length), int))
    equations: list[_Equation] = []
    constants: dict[Any, Any] = {}
    ids = closed.jaxpr.invars[0]
    [given] = _inlined(closed, [ids], equations, constants)
    return _Traced(length, ids, equations, given, constants)


def _inlined(closed: ClosedJaxpr, inputs: Sequence[Any], equations: list[_Equation], constants: dict[Any, Any]) -> Any:
    """The results of a computation whose equations are added to others, each with variables of its own."""
    known: dict[Any, Any] = dict(zip(closed.jaxpr.invars, inputs, strict=True))
    for variable, value in zip(closed.jaxpr.constvars, closed.consts, strict=True):
        known[variable] = fresh = _Variable(variable.aval)
        constants[fresh] = value

    def of(atom: Any) -> Any:
        return atom if isinstance(atom, Literal) else known[atom]

    for equation in closed.jaxpr.eqns:
        given, name = [of(atom) for atom in equation.invars], equation.primitive.name
        if name in CALLS:
            inner = equation.params[CALLS[name]]
            inner = inner if hasattr(inner, "consts") else ClosedJaxpr(inner, ())
            results = _inlined(inner, given, equations, constants)
        else:
            results = [_Variable(variable.aval) for variable in equation.outvars]
            equations.append(_Equation(equation.primitive, given, results, dict(equation.params)))
        known.update(zip(equation.outvars, results, strict=True))
    return [of(atom) for atom in closed.jaxpr.outvars]


@dataclass(frozen=True, eq=False)
class _Variable:
    aval: Any


def _no_cache(number: int, tokens: jax.Array, axis: int) -> jax.Array:
    return jnp.zeros((*tokens.shape[:axis], TRIED, *tokens.shape[axis + 1 :]), tokens.dtype)


class _Reading:
    """Reads tokens.

    Args:
        traced: at the length of a whole text.
        cache: puts rows into a cache by its number, at an axis, and gives all rows.
        position: of the first token that is read.
    """

    def __init__(
        self,
        traced: _Traced,
        cache: Callable[[int, jax.Array, int], jax.Array],
        position: jax.Array | int,
    ) -> None:
        self.traced, self.length, self.cache, self.position = traced, traced.length, cache, position
        self.cached = 0

    def run(self, ids: jax.Array) -> jax.Array:
        """Logits of tokens, (batch, tokens, vocabulary)."""
        self.tokens = ids.shape[1]
        self.values: dict[Any, Any] = {**self.traced.constants, self.traced.ids: _Rows(ids, 1)}
        for number, equation in enumerate(self.traced.equations):
            given = [self._value(atom) for atom in equation.inputs]
            if not any(isinstance(one, _Rows) for one in given):
                results = equation.primitive.bind(*given, **equation.params)
                results = results if equation.primitive.multiple_results else [results]
            else:
                results = self._results(number, equation, given)
            self.values.update(zip(equation.outputs, results, strict=True))
        given = self._value(self.traced.given)
        if not isinstance(given, _Rows) or given.array.ndim != 3:
            raise UsageError("what the model gives is no logits (batch, tokens, vocabulary) that depend on its tokens")
        return given.array

    def _value(self, atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else self.values[atom]

    def _results(self, number: int, equation: _Equation, given: list[Any]) -> list[Any]:
        name = equation.primitive.name
        if name in ELEMENTWISE:
            return [self._elementwise(equation, given)]
        if name == "dot_general":
            return [self._product(number, equation, *given)]
        rule = getattr(self, f"_{name}", self._reduced if name in REDUCTIONS else None)
        if all(one.tokens is None for one in given if isinstance(one, _Rows)):
            arrays = [one.array if isinstance(one, _Rows) else one for one in given]
            results = equation.primitive.bind(*arrays, **equation.params)
            results = results if equation.primitive.multiple_results else [results]
            return [_Rows(one, None) for one in results]
        if rule is None:
            raise self._refused(equation)
        made = rule(equation, *given)
        return made if isinstance(made, list) else [made]

    def _refused(self, equation: _Equation, why: str = "") -> UsageError:
        shapes = ", ".join(str(list(atom.aval.shape)) for atom in equation.inputs)
        return UsageError(
            f"{equation.primitive.name} of {shapes} {why or 'over the tokens'}: tokens are read one by one where they "
            "meet in products of matrices alone, as attention's queries, keys and values do"
        )

    def _rows_of(self, table: Any, axis: int) -> Any:
        """Of what does not depend on tokens, the rows of those that are read."""
        if jnp.ndim(table) <= axis or table.shape[axis] != self.length:
            return table
        return jax.lax.dynamic_slice_in_dim(table, self.position, self.tokens, axis)

    def _elementwise(self, equation: _Equation, given: list[Any]) -> _Rows:
        rows = [one for one in given if isinstance(one, _Rows)]
        tokens, others = ({getattr(one, name) for one in rows} - {None} for name in ("tokens", "others"))
        if len(tokens) > 1 or len(others) > 1 or tokens & others:
            raise self._refused(equation, "of which one is turned round")
        axis, seen = next(iter(tokens), None), next(iter(others), None)
        arrays = []
        for one in given:
            if isinstance(one, _Rows):
                arrays.append(one.array)
            else:
                arrays.append(one if axis is None or jnp.ndim(one) == 0 else self._rows_of(one, axis))
        return _Rows(equation.primitive.bind(*arrays, **equation.params), axis, seen)

    def _product(self, number: int, equation: _Equation, left: Any, right: Any) -> _Rows:
        (contracted, batched) = equation.params["dimension_numbers"]
        sides, free = [left, right], []
        for side in (0, 1):
            ndim = len(equation.inputs[side].aval.shape)
            free.append([i for i in range(ndim) if i not in contracted[side] and i not in batched[side]])
        order = [*batched[0], *free[0]], [*batched[1], *free[1]]

        def place(side: int, axis: int) -> int:
            found = order[side].index(axis)
            return found if side == 0 or axis in batched[1] else found + len(free[0])

        rows = [isinstance(one, _Rows) and one.tokens is not None for one in sides]
        tokens, others = None, None
        if all(rows):
            seen = [sides[side].tokens in free[side] for side in (0, 1)]
            if all(seen):  # queries and keys
                ends = [place(side, sides[side].tokens) for side in (0, 1)]
                key = 0 if self._is_key(number, equation.outputs[0], ends[0], ends[1]) else 1
                sides[key] = self._all_rows(sides[key])
                tokens, others = ends[1 - key], ends[key]
            else:
                for side in (0, 1):
                    own, theirs = sides[side], sides[1 - side]
                    meets = list(zip(contracted[side], contracted[1 - side], strict=True))
                    if own.others is not None and (own.others, theirs.tokens) in meets:  # weights and values
                        sides[1 - side] = self._all_rows(theirs)
                        tokens = place(side, own.tokens)
                        break
                    if (own.tokens, theirs.tokens) in zip(batched[side], batched[1 - side], strict=True):
                        tokens = place(side, own.tokens)
                        break
        else:
            side = 0 if rows[0] else 1
            if not any(rows):
                side = 0 if isinstance(left, _Rows) else 1
            own = sides[side]
            if own.tokens is not None and own.tokens not in contracted[side]:
                tokens = place(side, own.tokens)
                if own.tokens in batched[side]:
                    there = batched[1 - side][batched[side].index(own.tokens)]
                    other = sides[1 - side]
                    sides[1 - side] = (
                        _Rows(other.array, None) if isinstance(other, _Rows) else self._rows_of(other, there)
                    )
                if own.others is not None and own.others not in contracted[side]:
                    others = place(side, own.others)
            elif own.tokens is not None:
                raise self._refused(equation)
        if tokens is None and any(rows):
            raise self._refused(equation)
        arrays = [one.array if isinstance(one, _Rows) else one for one in sides]
        return _Rows(equation.primitive.bind(*arrays, **equation.params), tokens, others)

    def _all_rows(self, rows: _Rows) -> jax.Array:
        assert rows.tokens is not None
        self.cached += 1
        return self.cache(self.cached - 1, rows.array, rows.tokens)

    def _is_key(self, number: int, scores: Any, axis: int, other: int) -> bool:
        """Whether of two axes of scores the first is summed over, as a softmax does, and not the second."""
        followed: dict[int, tuple[int, int]] = {id(scores): (axis, other)}
        for equation in self.traced.equations[number + 1 :]:
            name, params = equation.primitive.name, equation.params
            for place, atom in enumerate(equation.inputs):
                if id(atom) not in followed:
                    continue
                axes = followed[id(atom)]
                summed: Sequence[int] = ()
                if name in REDUCTIONS:
                    summed = params["axes"]
                elif name == "dot_general":
                    summed = params["dimension_numbers"][0][place]
                hits = [each in summed for each in axes]
                if any(hits):
                    return hits[0]
                if name in ELEMENTWISE:
                    followed[id(equation.outputs[0])] = axes
                elif name == "transpose":
                    permutation = params["permutation"]
                    followed[id(equation.outputs[0])] = (permutation.index(axes[0]), permutation.index(axes[1]))
                elif name == "broadcast_in_dim":
                    dimensions = params["broadcast_dimensions"]
                    followed[id(equation.outputs[0])] = (dimensions[axes[0]], dimensions[axes[1]])
                elif name == "reshape":
                    at = [self._reshaped(atom.aval.shape, equation.outputs[0].aval.shape, each) for each in axes]
                    if at[0] is not None and at[1] is not None:
                        followed[id(equation.outputs[0])] = (at[0], at[1])
        return False

    @staticmethod
    def _reshaped(before: Axes, after: Axes, axis: int) -> int | None:
        """Where an axis is behind a reshape; None where it is split or joined."""
        for place, size in enumerate(after):
            if size == before[axis] and prod(after[:place]) == prod(before[:axis]):
                return place
        return None

    # %% One rule for each operation that moves axes

    def _moved(self, equation: _Equation, rows: _Rows, to: Callable[[int], int | None], **params: Any) -> _Rows:
        tokens = None if rows.tokens is None else to(rows.tokens)
        others = None if rows.others is None else to(rows.others)
        if tokens is None or (others is None) != (rows.others is None):
            raise self._refused(equation, "which joins tokens with another axis")
        return _Rows(equation.primitive.bind(rows.array, **{**equation.params, **params}), tokens, others)

    def _shape(self, equation: _Equation, tokens: int | None) -> Axes:
        shape = list(equation.outputs[0].aval.shape)
        if tokens is not None:
            shape[tokens] = self.tokens
        return tuple(shape)

    def _transpose(self, equation: _Equation, rows: _Rows) -> _Rows:
        return self._moved(equation, rows, list(equation.params["permutation"]).index)

    def _broadcast_in_dim(self, equation: _Equation, rows: _Rows, *_: Any) -> _Rows:
        dimensions = equation.params["broadcast_dimensions"]
        assert rows.tokens is not None
        shape = self._shape(equation, dimensions[rows.tokens])
        return self._moved(equation, rows, lambda axis: dimensions[axis], shape=shape)

    def _reshape(self, equation: _Equation, rows: _Rows, *_: Any) -> _Rows:
        before, after = equation.inputs[0].aval.shape, equation.outputs[0].aval.shape
        assert rows.tokens is not None
        shape = self._shape(equation, self._reshaped(before, after, rows.tokens))
        return self._moved(equation, rows, lambda axis: self._reshaped(before, after, axis), new_sizes=shape)

    def _squeeze(self, equation: _Equation, rows: _Rows) -> _Rows:
        gone = equation.params["dimensions"]
        return self._moved(equation, rows, lambda axis: axis - sum(each < axis for each in gone))

    def _reduced(self, equation: _Equation, rows: _Rows) -> _Rows:
        gone = equation.params["axes"]
        if rows.tokens in gone:
            raise self._refused(equation)
        rest = rows if rows.others not in gone else _Rows(rows.array, rows.tokens)
        return self._moved(equation, rest, lambda axis: axis - sum(each < axis for each in gone))

    def _slice(self, equation: _Equation, rows: _Rows) -> _Rows:
        params = equation.params
        starts, limits = list(params["start_indices"]), list(params["limit_indices"])
        axis = rows.tokens
        assert axis is not None
        if (starts[axis], limits[axis]) == (0, self.length) and not (
            params["strides"] and params["strides"][axis] != 1
        ):
            limits[axis] = self.tokens
        elif (starts[axis], limits[axis]) == (self.length - 1, self.length):
            starts[axis], limits[axis] = self.tokens - 1, self.tokens  # the last of the text
            params = {**params, "start_indices": tuple(starts), "limit_indices": tuple(limits)}
            return _Rows(equation.primitive.bind(rows.array, **params), None)
        else:
            raise self._refused(equation)
        return self._moved(equation, rows, lambda axis: axis, limit_indices=tuple(limits))

    def _split(self, equation: _Equation, rows: _Rows) -> list[_Rows]:
        if equation.params["axis"] in (rows.tokens, rows.others):
            raise self._refused(equation)
        parts = equation.primitive.bind(rows.array, **equation.params)
        return [_Rows(part, rows.tokens, rows.others) for part in parts]

    def _concatenate(self, equation: _Equation, *given: Any) -> _Rows:
        first = next(one for one in given if isinstance(one, _Rows))
        if equation.params["dimension"] in (first.tokens, first.others) or first.tokens is None:
            raise self._refused(equation)
        arrays = []
        for one in given:
            if isinstance(one, _Rows) and (one.tokens, one.others) != (first.tokens, first.others):
                raise self._refused(equation, "of which one is turned round")
            arrays.append(one.array if isinstance(one, _Rows) else self._rows_of(one, first.tokens))
        return _Rows(equation.primitive.bind(*arrays, **equation.params), first.tokens, first.others)

    def _gather(self, equation: _Equation, operand: Any, indices: Any) -> _Rows:
        numbers = equation.params["dimension_numbers"]
        if isinstance(operand, _Rows):
            return self._last(equation, operand, indices)
        out = equation.outputs[0].aval
        batch = [i for i in range(len(out.shape)) if i not in numbers.offset_dims]
        assert indices.tokens is not None
        made = equation.primitive.bind(operand, indices.array, **equation.params)
        return _Rows(made, batch[indices.tokens])

    def _last(self, equation: _Equation, rows: _Rows, indices: Any) -> _Rows:
        """What is looked up of the rows: that of the last token alone, as ``x[:, [-1]]``."""
        numbers = equation.params["dimension_numbers"]
        is_index = not isinstance(indices, _Rows) and numbers.start_index_map == (rows.tokens,)
        found = self._constant(equation.inputs[1]) if is_index else None
        if found is None or not (np.asarray(found) == self.length - 1).all():
            raise self._refused(equation, "which takes some of the tokens, and not the last")
        last = jnp.full_like(indices, self.tokens - 1)
        return _Rows(equation.primitive.bind(rows.array, last, **equation.params), None)

    def _constant(self, atom: Any) -> Any:
        """The numbers of what depends on no input, where they are known before anything runs."""
        if isinstance(atom, Literal):
            return atom.val
        if atom in self.traced.constants:
            return self.traced.constants[atom]
        for equation in self.traced.equations:
            if atom in equation.outputs:
                given = [self._constant(one) for one in equation.inputs]
                if any(one is None or isinstance(one, jax.core.Tracer) for one in given):
                    return None
                with jax.ensure_compile_time_eval():
                    made = equation.primitive.bind(*given, **equation.params)
                return made[equation.outputs.index(atom)] if equation.primitive.multiple_results else made
        return None
