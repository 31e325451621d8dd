"""Flax's side: what nnx and Linen models have in common, from inputs to gradients."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from port.errors import explained
from port.mapping import FROZEN, Guide
from port.parity.sides.calls import Arrays, RecordedCall, is_inexact, numpy_leaves
from port.parity.sides.flax_pass import flax_pass
from port.parity.sides.inputs import Inputs
from port.parity.sides.run import Cotangents, Run
from port.parity.sides.structure import leaves, rebuilt
from port.parity.sides.tap import Tap

Variables = dict[str, Any]


class FlaxSide(ABC):
    """A copy of a Flax model in one precision, on the CPU, without randomness.

    Attributes:
        guide: its layers and variables.
        weights: its variables by path, in their own dtypes.
        variables: the same, floating ones in the precision of the comparison.
        silenced: layers with active dropout in training mode; it is off in the copy.
        keywords: additional keywords of the model's call, in evaluation and in training.
        tells_frozen: whether frozen variables have their own variable type.
    """

    tells_frozen = False

    guide: Guide
    weights: Arrays
    variables: Variables
    silenced: tuple[str, ...]
    keywords: tuple[Mapping[str, Any], Mapping[str, Any]]

    @abstractmethod
    def call(self, variables: Variables, inputs: Inputs, *, training: bool, tap: Tap) -> tuple[Any, Variables]:
        """Return the model's output, and its variables afterwards."""

    @abstractmethod
    def call_layer(self, call: RecordedCall, variables: Variables, inputs: Inputs, *, training: bool) -> Any:
        """Return the output of one layer alone."""

    def run(
        self,
        inputs: Inputs,
        cotangents: Cotangents,
        *,
        training: bool,
        loss: Any = None,
        part: Collection[str] | None = None,
    ) -> Run:
        """Run a forward pass, and a backward pass if cotangents are passed.

        Gradients are taken of some parameters, selected by path; by default of all.

        Raises:
            UsageError: the model does not take the inputs; quotes its error.
        """
        tap = Tap()
        output, _ = self._forward(self.variables, inputs, training, tap)
        outputs = numpy_leaves(_lost(output, loss))
        arriving = {call.key: zeros for call in tap.calls if (zeros := _zeros(call.output))}
        wanted = cotangents(outputs)
        if not wanted:
            return Run(outputs, tap.calls)

        def forward(
            params: Variables, floating: Variables, added: dict[str, Variables]
        ) -> tuple[dict[str, jax.Array], None]:
            changed = _with(inputs, floating)
            output, _ = self._forward({**self.variables, **params}, changed, training, Tap(added))
            return leaves(_lost(output, loss)), None

        params = {path: value for path, value in self._floating().items() if part is None or path in part}
        pulled = flax_pass(forward, wanted, params, _floating(inputs), arriving)
        gradients, input_gradients, arrived = pulled.gradients
        for call in tap.calls:
            call.cotangents = arrived.get(call.key, {})
        return Run(outputs, tap.calls, gradients=gradients, input_gradients=input_gradients, cotangents=wanted)

    def forward(self, variables: Variables, inputs: Inputs, tap: Tap) -> Any:
        """Return the model's output in evaluation, with other variables than its own; can be traced.

        Raises:
            UsageError: the model does not take the inputs; quotes its error.
        """
        return self._forward(variables, inputs, False, tap)[0]

    def buffers_after(self, inputs: Inputs, steps: int) -> Arrays:
        """Return the variables after some forward passes in training mode."""
        variables = self.variables
        for _ in range(steps):
            _, variables = self._forward(variables, inputs, True, Tap())
        return _numpy(variables)

    def is_random(self, inputs: Inputs) -> bool:
        """Whether it requests random numbers in training without a stream: it has dropout outside dropout layers."""
        return False

    def calls_with(self, variables: Variables, inputs: Inputs, *, training: bool) -> Run:
        """Run a forward pass with other values for some variables."""
        tap = Tap()
        output, _ = self._forward({**self.variables, **variables}, inputs, training, tap)
        return Run(numpy_leaves(output), tap.calls)

    def traced(self, inputs: Inputs, *, training: bool) -> tuple[Any, list[RecordedCall]]:
        """Trace a forward pass, and return its output and the layers' calls."""
        tap = Tap()
        output, _ = self._forward(self.variables, inputs, training, tap)
        return output, tap.calls

    @abstractmethod
    def with_option(self, call: RecordedCall, name: str, value: Any) -> FlaxSide:
        """Return the same side, with another value for one layer's option when that layer runs alone."""

    def run_layer(self, call: RecordedCall, inputs: Inputs, cotangents: Arrays, *, training: bool) -> Run:
        """Run one layer alone, with other inputs and cotangents than in the model's run."""
        own = f"{call.path}." if call.path else ""
        params = {path: value for path, value in self._floating().items() if path.startswith(own)}

        def forward(params: Variables, floating: Variables) -> tuple[dict[str, jax.Array], None]:
            variables = {**self.variables, **params}
            found = leaves(self.call_layer(call, variables, _with(inputs, floating), training=training))
            return {name: leaf for name, leaf in found.items() if is_inexact(leaf)}, None

        pulled = flax_pass(forward, cotangents, params, _floating(inputs))
        gradients, input_gradients = pulled.gradients
        return Run(pulled.outputs, gradients=gradients, input_gradients=input_gradients)

    def _forward(self, variables: Variables, inputs: Inputs, training: bool, tap: Tap) -> tuple[Any, Variables]:
        # Some models test whether their inputs are jax arrays.
        *args, kwargs = rebuilt((*inputs.args, inputs.kwargs), lambda name, leaf: jnp.asarray(leaf))
        called = Inputs(tuple(args), {**self.keywords[training], **kwargs})
        with explained(f"the Flax model does not take the inputs ({inputs.described})"):
            return self.call(variables, called, training=training, tap=tap)

    def narrowed(self, inputs: Inputs) -> bool:
        """Whether the model computes in float32 on the way, as `jax.nn.dot_product_attention` does."""
        traced = jax.make_jaxpr(lambda: leaves(self._forward(self.variables, inputs, False, Tap())[0]))()
        return _narrows(traced.jaxpr)

    def widened(self, inputs: Inputs) -> bool:
        """Whether the model brings in float32 arrays, such as a table of sines that it computes."""
        traced = jax.make_jaxpr(lambda: leaves(self._forward(self.variables, inputs, False, Tap())[0]))()
        return _widens(traced.jaxpr)

    def narrowed_in(self, call: RecordedCall, *, training: bool) -> bool:
        """Whether one layer, called as in a run, computes in float32; False if it cannot be called alone."""
        inputs = Inputs(call.args, call.kwargs)
        try:
            traced = jax.make_jaxpr(
                lambda: leaves(self.call_layer(call, self.variables, inputs, training=training)), return_shape=False
            )()
        except Exception:  # it may need a scope or a stream of random numbers from the whole model
            return False
        return _narrows(traced.jaxpr)

    def _floating(self) -> Variables:
        """Return the parameters to differentiate: frozen ones too, whose gradients are equally informative."""
        return {
            path: value
            for path, value in self.variables.items()
            if is_inexact(value) and self.guide.leaves[path].collection in ("params", FROZEN)
        }


def _lost(output: Any, loss: Any) -> Any:
    """Return the output, or its loss."""
    if loss is None:
        return output
    with explained("the loss does not take the Flax model's output"):
        return {"loss": loss(output)}


_ON_IN_TRAINING = ("train", "training", "is_training")
_OFF_IN_TRAINING = ("deterministic", "eval", "evaluation", "inference", "use_running_average")


def mode_keywords(module: Any) -> tuple[dict[str, bool], dict[str, bool]]:
    """Return the usual mode keywords that a model's ``__call__`` accepts: for evaluation, for training."""
    try:
        names = inspect.signature(type(module).__call__).parameters
    except (TypeError, ValueError):
        return {}, {}

    def keywords(training: bool) -> dict[str, bool]:
        on = {name: training for name in _ON_IN_TRAINING if name in names}
        return on | {name: not training for name in _OFF_IN_TRAINING if name in names}

    return keywords(False), keywords(True)


def silence(layer: Any) -> bool:
    """Turn off a Flax layer's dropout by its rate, and return whether it was on."""
    drops = "Dropout" in type(layer).__name__ or type(layer).__name__ == "StochasticDepth"
    rates = ["dropout_rate", *(["rate"] if drops else [])]
    active = [name for name in rates if isinstance(getattr(layer, name, None), float | int) and getattr(layer, name)]
    for name in active:
        object.__setattr__(layer, name, 0.0)
    return bool(active)


def widen(layer: Any, precision: str) -> None:
    """Change the dtype in which a layer computes, if it has a floating one."""
    # A recurrent cell makes its first state in the dtype of its parameters.
    for name in ("dtype", "param_dtype") if hasattr(layer, "initialize_carry") else ("dtype",):
        own = getattr(layer, name, None)
        if isinstance(own, type | np.dtype | str) and jnp.issubdtype(own, jnp.floating):
            object.__setattr__(layer, name, jnp.dtype(precision))


def _narrows(jaxpr: Any) -> bool:
    return any("float64" in operands and not _NARROW.isdisjoint(results) for operands, results in _dtypes(jaxpr))


def _widens(jaxpr: Any) -> bool:
    return any("float64" in results and not _NARROW.isdisjoint(operands) for operands, results in _dtypes(jaxpr))


_NARROW = frozenset(("float32", "bfloat16", "float16"))


def _dtypes(jaxpr: Any) -> Iterator[tuple[set[str], set[str]]]:
    """Yield the dtypes of each equation's operands and results."""
    for equation in jaxpr.eqns:
        nested = [getattr(value, "jaxpr", value) for value in equation.params.values()]
        nested = [inner for inner in nested if hasattr(inner, "eqns")]
        for inner in nested:
            yield from _dtypes(inner)
        if not nested:
            operands, results = (
                {str(getattr(v.aval, "dtype", "")) for v in vs} for vs in (equation.invars, equation.outvars)
            )
            yield operands, results


def _with(inputs: Inputs, floating: Variables) -> Inputs:
    *args, kwargs = rebuilt(inputs.tree, lambda name, leaf: floating.get(name, leaf))
    return Inputs(tuple(args), kwargs)


def _floating(inputs: Inputs) -> Variables:
    return {name: jnp.asarray(leaf) for name, leaf in leaves(inputs.tree).items() if is_inexact(leaf)}


def _zeros(output: Any) -> Variables:
    return {name: jnp.zeros_like(leaf) for name, leaf in leaves(output).items() if is_inexact(leaf)}


def _numpy(arrays: Mapping[str, Any]) -> Arrays:
    return {name: np.asarray(array) for name, array in arrays.items()}
