"""A Linen model's side: the model and its variables, copied, set to a mode, and its layer calls recorded."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen
from flax.errors import InvalidRngError

from port.errors import UsageError, explained
from port.mapping.linen_guide import flat, is_bound, linen_guide
from port.mapping.nnx_guide import dotted
from port.parity.sides.calls import RecordedCall, is_floating
from port.parity.sides.flax_side import FlaxSide, Variables, mode_keywords, silence, widen
from port.parity.sides.inputs import Inputs
from port.parity.sides.structure import leaves, rebuilt
from port.parity.sides.tap import Tap

_STATISTICS = "batch_stats"


class LinenSide(FlaxSide):
    """A Linen model and its variables.

    Args:
        module: the unbound model.
        variables: ``{"params": {…}, "batch_stats": {…}}``, or the parameters alone.
        precision: the dtype's name that the copy is cast to.
        inputs: the Flax model's inputs: a Linen model's layers are known only from a call.
        keywords: keywords of the model's call in evaluation and in training; by default the usual ones it accepts.
    """

    def __init__(
        self,
        module: linen.Module,
        variables: Mapping[str, Any],
        precision: str,
        inputs: Inputs,
        keywords: tuple[Mapping[str, Any], Mapping[str, Any]] | None,
    ) -> None:
        self._module, self._precision = module, precision
        self.keywords = keywords or mode_keywords(module)
        collections = linen.unbox(variables if "params" in variables else {"params": variables})
        self._collection = {path: collection for collection, tree in collections.items() for path in flat(tree)}
        self.weights = {path: np.asarray(leaf) for tree in collections.values() for path, leaf in flat(tree).items()}
        self.variables = {
            path: jnp.array(array, dtype=precision if is_floating(array) else array.dtype)
            for path, array in self.weights.items()
        }
        self._silenced: dict[str, None] = {}
        self._options: dict[str, dict[str, Any]] = {}
        own = self._nested(self.variables)
        # jax arrays, as in a run: some models test for them.
        converted = rebuilt(inputs.kwargs, lambda name, leaf: jnp.asarray(leaf))
        called: Any = _Called(module, own, {**self.keywords[False], **converted}, self._prepare)
        with explained(f"the Flax model does not take the inputs ({inputs.described})"):
            self.guide = linen_guide(called, inputs.args)
        self._kept = (_STATISTICS,) if self._leaves_statistics(inputs) else ()

    @property
    def silenced(self) -> tuple[str, ...]:  # type: ignore[override]
        """Layers whose dropout was turned off; known once the model has run."""
        return tuple(self._silenced)

    def call(self, variables: Variables, inputs: Inputs, *, training: bool, tap: Tap) -> tuple[Any, Variables]:
        def standing_in(run: Any, args: Any, kwargs: Any, context: Any) -> Any:
            self._prepare(context.module)
            path = dotted(context.module.path) if is_bound(context.module) else ""
            if not path or context.method_name != "__call__":
                return run(*args, **kwargs)
            return tap(path, context.module.clone(parent=None), run, args, kwargs)

        mutable = self._mutable(() if training else self._kept)
        with linen.intercept_methods(standing_in):
            output, updates = self._module.apply(
                self._nested(variables), *inputs.args, **inputs.kwargs, mutable=mutable
            )
        return output, variables | {path: leaf for tree in updates.values() for path, leaf in flat(tree).items()}

    def _mutable(self, kept: tuple[str, ...]) -> list[str]:
        return [name for name in set(self._collection.values()) if name not in ("params", *kept)]

    def _leaves_statistics(self, inputs: Inputs) -> bool:
        """Whether evaluation runs with immutable statistics; some models have no other sign of their mode."""
        if _STATISTICS not in self._collection.values():
            return False

        def run(variables: Any) -> Any:
            *args, kwargs = rebuilt((*inputs.args, inputs.kwargs), lambda name, leaf: jnp.asarray(leaf))
            options = {**self.keywords[False], **kwargs}
            return self._module.apply(variables, *args, **options, mutable=self._mutable((_STATISTICS,)))[1]

        try:
            jax.eval_shape(run, self._nested(self.variables))
        except Exception:  # it writes them, which `port.check` reports; or it fails, which its run reports
            return False
        return True

    def is_random(self, inputs: Inputs) -> bool:
        try:
            jax.eval_shape(lambda: leaves(self._forward(self.variables, inputs, True, Tap())[0]))
        except UsageError as error:
            return isinstance(error.__cause__, InvalidRngError)
        return False

    def call_layer(self, call: RecordedCall, variables: Variables, inputs: Inputs, *, training: bool) -> Any:
        own = {
            collection: beneath
            for collection, tree in self._nested(variables).items()
            if (beneath := _beneath(tree, call.path.split(".")))
        }
        layer = call.layer.clone(**self._options.get(call.path, {}))
        mutable = [name for name in own if name != "params"]
        return layer.apply(own, *inputs.args, **inputs.kwargs, mutable=mutable)[0]

    def with_option(self, call: RecordedCall, name: str, value: Any) -> LinenSide:
        changed = copy.copy(self)
        changed._options = {call.path: {name: value}}
        return changed

    def _prepare(self, layer: linen.Module) -> None:
        widen(layer, self._precision)
        if isinstance(cell := getattr(layer, "cell", None), linen.Module):
            widen(cell, self._precision)  # it makes the initial state before it is called
        if silence(layer) and is_bound(layer):
            self._silenced[dotted(layer.path)] = None

    def _nested(self, variables: Variables) -> dict[str, Any]:
        nested: dict[str, Any] = {}
        for path, value in variables.items():
            *above, name = (self._collection[path], *path.split("."))
            tree = nested
            for part in above:
                tree = tree.setdefault(part, {})
            tree[name] = value
        return nested


class _Called:
    """A Linen module in the form `linen_guide` initialises, with call keywords and prepared layers."""

    def __init__(
        self,
        module: linen.Module,
        variables: Mapping[str, Any],
        kwargs: Mapping[str, Any],
        prepare: Callable[[linen.Module], None],
    ) -> None:
        self._module, self._variables, self._kwargs, self._prepare = module, variables, kwargs, prepare

    def init(self, key: jax.Array, *args: Any) -> Any:
        """Return the module's variables."""

        def prepared(run: Any, args: Any, kwargs: Any, context: Any) -> Any:
            self._prepare(context.module)
            return run(*args, **kwargs)

        rngs = {"params": key, "dropout": key}
        with linen.intercept_methods(prepared):
            try:
                return self._module.init(rngs, *args, **self._kwargs)
            except Exception:
                # Initialisers may mix float64 and float32 in a float64 run; the model runs with its own variables.
                _, updates = self._module.apply(self._variables, *args, **self._kwargs, rngs=rngs, mutable=True)
                return {**self._variables, **updates}


def _beneath(tree: Any, path: list[str]) -> Any:
    for part in path:
        if not isinstance(tree, Mapping) or part not in tree:
            return None
        tree = tree[part]
    return tree
