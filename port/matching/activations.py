"""Activations: each layer's input and output, as a few numbers that do not depend on the order of the axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from port.matching.units import Unit
from port.parity.sides.calls import RecordedCall
from port.parity.sides.flax_side import FlaxSide
from port.parity.sides.inputs import Inputs
from port.parity.sides.run import Run
from port.parity.sides.structure import leaves
from port.parity.sides.tap import Tap

Print = np.ndarray
"""The fingerprint of an array: sums that do not depend on its layout, nor on padding with zeros."""

EXACT, NARROWED = 1e-7, 1e-4
"""How far apart two fingerprints of the same numbers may be: in float64, and if a model goes through float32."""


@dataclass(frozen=True)
class Activations:
    """What one run of one side shows.

    Attributes:
        inputs: module → the fingerprint of its first call's input.
        outputs: module → the fingerprint of that call's output.
        order: module → its position among all calls.
    """

    inputs: dict[str, Print]
    outputs: dict[str, Print]
    order: dict[str, int]

    def input(self, unit: Unit) -> Print | None:
        """The fingerprint of a unit's input; None if it was not observed."""
        return self.inputs.get(unit.seen[0]) if unit.seen[0] is not None else None

    def output(self, unit: Unit) -> Print | None:
        """The fingerprint of a unit's output; None if it was not observed."""
        return self.outputs.get(unit.seen[1]) if unit.seen[1] is not None else None

    def place(self, unit: Unit) -> int:
        """When a unit was called; after all others if that was not observed."""
        seen = next((path for path in unit.seen if path is not None), None)
        return self.order.get(seen, len(self.order)) if seen is not None else len(self.order)


def torch_activations(run: Run) -> Activations:
    """Run torch's side, and return its activations."""
    inputs: dict[str, Print] = {}
    outputs: dict[str, Print] = {}
    order: dict[str, int] = {}
    for place, call in enumerate(run.calls):
        if call.number == 0:
            order[call.path] = place
            for prints, tree in ((inputs, _first(call)), (outputs, call.output)):
                if (array := _leaf(tree)) is not None:
                    prints[call.path] = fingerprint(np, np.asarray(array))
    return Activations(inputs, outputs, order)


class FlaxRuns:
    """Runs Flax's side with different sets of weights, compiled once.

    Args:
        side: Flax's side.
        inputs: the inputs, in its layout.
    """

    def __init__(self, side: FlaxSide, inputs: Inputs) -> None:
        import jax

        self._side, self._inputs = side, inputs
        self._order: dict[str, int] = {}
        self._run: Callable[..., Any] = jax.jit(self._traced, compiler_options={"xla_backend_optimization_level": 0})
        self.count = 0

    def __call__(self, variables: Mapping[str, Any]) -> tuple[Activations, dict[str, np.ndarray]]:
        """Return the activations and the model's outputs, with these weights.

        Raises:
            UsageError: the model does not accept the inputs.
        """
        self.count += 1
        inputs, outputs, results = self._run(dict(variables))
        input_prints, output_prints = (
            {path: np.asarray(values) for path, values in prints.items()} for prints in (inputs, outputs)
        )
        return Activations(input_prints, output_prints, self._order), {
            name: np.asarray(leaf) for name, leaf in results.items()
        }

    def _traced(self, variables: Any) -> Any:
        import jax.numpy as jnp

        tap = Tap()
        output = self._side.forward(variables, self._inputs, tap)
        inputs: dict[str, Any] = {}
        outputs: dict[str, Any] = {}
        for place, call in enumerate(tap.calls):
            if call.number == 0:
                self._order[call.path] = place
                for prints, tree in ((inputs, _first(call)), (outputs, call.output)):
                    if (array := _leaf(tree)) is not None:
                        prints[call.path] = fingerprint(jnp, jnp.asarray(array))
        return inputs, outputs, leaves(output)


def fingerprint(numpy: Any, array: Any) -> Any:
    """Compute a few sums over an array; for integers, over how often each value occurs.

    Args:
        numpy: numpy, or jax.numpy.
        array: any array.
    """
    is_whole = array.dtype.kind in "iub"
    values = array.astype(numpy.float64).reshape(-1)
    if is_whole:
        values = values + 1.0  # an index of zero counts too
    sums = [
        numpy.sum(numpy.abs(values)),
        numpy.sum(values),
        numpy.sum(values**2),
        numpy.sum(values**3),
        numpy.sum(numpy.sin(3 * values) * values),
    ]
    # Positions may occur once, or once for each sample of a batch.
    return numpy.stack(sums) / (max(1, values.size) if is_whole else 1)


def alike(one: Print | None, other: Print | None, tolerance: float) -> bool:
    """Whether two fingerprints are of the same numbers."""
    if one is None or other is None or not (np.isfinite(one).all() and np.isfinite(other).all()):
        return False
    scale = np.maximum(np.abs(one), np.abs(other))
    # A sum that cancels is as exact as its terms.
    scale = np.maximum(scale, np.array([0, scale[0], 0, scale[2], scale[0]]))
    return bool((np.abs(one - other) <= tolerance * scale + 1e-300).all())


def _first(call: RecordedCall) -> Any:
    return (*call.args, call.kwargs)


def _leaf(tree: Any) -> Any:
    """The first array of numbers; a mask does not count."""
    for leaf in leaves(tree).values():
        if str(getattr(leaf, "dtype", "")).removeprefix("torch.") != "bool":
            return leaf
    return None
