"""An nnx model's side: the model copied, set to a mode, and its layer calls recorded."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from port.errors import UsageError
from port.mapping.nnx_guide import dotted, nnx_guide, weights_filter
from port.parity.sides.calls import RecordedCall, is_floating
from port.parity.sides.flax_side import FlaxSide, Variables, mode_keywords, silence, widen
from port.parity.sides.inputs import Inputs
from port.parity.sides.structure import is_array
from port.parity.sides.tap import Tap
from port.weights.nnx_variables import variables_of


class NnxSide(FlaxSide):
    """A copy of an nnx model.

    Args:
        module: the model; it is not changed.
        precision: the dtype's name that the copy is cast to.
        keywords: keywords of the model's call in evaluation and in training; by default the usual ones it accepts.

    Raises:
        UsageError: the model is abstract, without values.
    """

    tells_frozen = True

    def __init__(
        self, module: nnx.Module, precision: str, keywords: tuple[Mapping[str, Any], Mapping[str, Any]] | None
    ) -> None:
        self.guide = nnx_guide(module)
        graph, state = nnx.split(module)
        if any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in jax.tree.leaves(state)):
            raise UsageError("the Flax model is abstract and has no values: load its weights first")
        self.weights = variables_of(module)
        own = nnx.merge(graph, jax.tree.map(lambda leaf: _cast(leaf, precision), state))
        for _, layer in nnx.iter_modules(own):
            widen(layer, precision)
        self.keywords = keywords or mode_keywords(module)
        # Evaluation keeps dropout on: a correct model applies none, and a wrong one is detected.
        evaluated = _in_mode(own, training=False)
        self.silenced = tuple(dotted(path) for path, layer in nnx.iter_modules(own) if silence(layer))
        self._modes = (evaluated, _in_mode(own, training=True))
        self._places = {dotted(path): path for path, _ in _weights(own)}
        self.variables = _values(own)

    def call(self, variables: Variables, inputs: Inputs, *, training: bool, tap: Tap) -> tuple[Any, Variables]:
        module = self._filled(variables, training)
        with _tapped(module, tap):
            output = module(*inputs.args, **inputs.kwargs)  # type: ignore[operator]
        return output, _values(module)

    def call_layer(self, call: RecordedCall, variables: Variables, inputs: Inputs, *, training: bool) -> Any:
        layers = {dotted(path): layer for path, layer in nnx.iter_modules(self._filled(variables, training))}
        return layers[call.path](*inputs.args, **inputs.kwargs)

    def with_option(self, call: RecordedCall, name: str, value: Any) -> NnxSide:
        changed = copy.copy(self)
        evaluated, trained = (_with_option(mode, call.path, name, value) for mode in self._modes)
        changed._modes = evaluated, trained
        return changed

    def _filled(self, variables: Variables, training: bool) -> nnx.Module:
        graph, state = self._modes[training]
        # Variables belong to the trace that created them, so make new ones.
        module = nnx.merge(graph, jax.tree.map(lambda leaf: leaf, state))
        nnx.update(module, nnx.from_flat_state([(self._places[path], value) for path, value in variables.items()]))
        return module


def _in_mode(module: nnx.Module, training: bool) -> tuple[Any, Any]:
    copy = nnx.merge(*nnx.split(module))
    # Random masks cannot be compared, so dropout stays off in training.
    copy.set_attributes(deterministic=True, use_running_average=not training, raise_if_not_found=False)
    return nnx.split(copy)


def _with_option(mode: tuple[Any, Any], path: str, name: str, value: Any) -> tuple[Any, Any]:
    module = nnx.merge(mode[0], jax.tree.map(lambda leaf: leaf, mode[1]))
    for at, layer in nnx.iter_modules(module):
        if dotted(at) == path:
            setattr(layer, name, value)
    return nnx.split(module)


def _cast(leaf: Any, precision: str) -> Any:
    if not is_array(leaf):
        return leaf
    return jnp.array(leaf, dtype=precision if is_floating(leaf) else leaf.dtype)


def _weights(module: nnx.Module) -> list[tuple[tuple[Any, ...], Any]]:
    return list(nnx.to_flat_state(nnx.state(module, weights_filter())))


def _values(module: nnx.Module) -> Variables:
    return {dotted(path): weight[...] for path, weight in _weights(module)}


@contextmanager
def _tapped(module: nnx.Module, tap: Tap) -> Iterator[None]:
    """Route the calls of a model's layers through the tap in this context.

    Python looks ``__call__`` up in the class, so the classes get another one for this time; it leaves the layers of
    other models alone.
    """
    paths = {id(layer): dotted(path) for path, layer in nnx.iter_modules(module) if path}
    classes = {type(layer) for _, layer in nnx.iter_modules(module)}
    classes = {cls for cls in classes if any("__call__" in vars(base) for base in cls.__mro__)}
    running: set[int] = set()
    kept = {cls: vars(cls).get("__call__") for cls in classes}
    # Each class's own method, before any is replaced.
    calls = {cls: cls.__call__ for cls in classes}
    try:
        for cls in classes:
            setattr(cls, "__call__", _standing_in(calls[cls], paths, running, tap))  # noqa: B010
        yield
    finally:
        for cls, own in kept.items():
            if own is None:
                del cls.__call__
            else:
                setattr(cls, "__call__", own)  # noqa: B010


def _standing_in(run: Callable[..., Any], paths: dict[int, str], running: set[int], tap: Tap) -> Callable[..., Any]:
    @wraps(run)
    def standing_in(self: Any, *args: Any, **kwargs: Any) -> Any:
        # A call of the parent class's `__call__` belongs to the same call.
        if id(self) not in paths or id(self) in running:
            return run(self, *args, **kwargs)
        running.add(id(self))
        try:
            return tap(paths[id(self)], self, lambda *a, **k: run(self, *a, **k), args, kwargs)
        finally:
            running.discard(id(self))

    return standing_in
