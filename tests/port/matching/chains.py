"""Two chains of linear layers beside each other, in numpy: states are settled and told apart without any model."""

from __future__ import annotations

from typing import Any

import numpy as np

from port.mapping import Guide
from port.mapping.found import Found
from port.mapping.guide import Leaf
from port.matching.activations import Activations, fingerprint
from port.matching.options import Node, Option
from port.matching.problem import Problem
from port.matching.running import StateRuns
from port.matching.state import By, Decision, State
from port.matching.units import Unit
from port.moves import Permute

WIDTH = 3


def unit(path: str, family: str = "linear", **shapes: tuple[int, ...]) -> Unit:
    """A unit with tensors of these shapes, whose call is seen."""
    return Unit(path, family, {name: f"{path}.{name}" for name in shapes}, dict(shapes), family, seen=(path, path))


def guide(side: Any, *units: Unit, collection: str = "params") -> Guide:
    """A guide with the tensors of units."""
    leaves = {
        full: Leaf(full, one.shapes[name], "float64", collection) for one in units for name, full in one.names.items()
    }
    return Guide(side, leaves)


def _transposed(torch: Unit, flax: Unit) -> Option:
    match = Found((f"{torch.path}.weight",), (f"{flax.path}.kernel",), (Permute((1, 0)),))
    return Option((torch,), (flax,), (match,))


class Chain:
    """torch's layers ``t0, t1, …`` and Flax's ``f0, f1, …``, all of one shape, called in this order; tanh between.

    Args:
        count: of layers.
        wrong: Flax's layer whose output is doubled, so that nothing agrees after it.
        beside: the first two layers are given the model's input, and what they give is added.
        mirrored: whether what they give is added alike, so that nothing tells them apart.
        tolerances: of what a layer is given, and of the outputs.
    """

    def __init__(
        self,
        count: int,
        *,
        wrong: int = -1,
        beside: bool = False,
        mirrored: bool = False,
        tolerances: tuple[float, float] = (1e-7, 1e-9),
    ) -> None:
        self.layers, self.wrong, self.beside, self.mirrored = count, wrong, beside, mirrored
        self.count = 0
        generator = np.random.default_rng(count)
        self.inputs = generator.normal(size=(2, WIDTH))
        self.weights = {f"t{i}.weight": generator.normal(size=(WIDTH, WIDTH)) for i in range(count)}
        torch = [unit(f"t{i}", weight=(WIDTH, WIDTH)) for i in range(count)]
        flax = [unit(f"f{i}", kernel=(WIDTH, WIDTH)) for i in range(count)]
        self.torch: list[Node] = [(one,) for one in torch]
        self.flax: list[Node] = [(one,) for one in flax]
        options = {((one,), (other,)): (_transposed(one, other),) for one in torch for other in flax}
        self.problem = Problem(tuple(self.torch), tuple(self.flax), options)
        shown, output = self._run([self.weights[f"t{i}.weight"].T for i in range(count)], "t", wrong=-1)
        own = {f"f{i}.kernel": generator.normal(size=(WIDTH, WIDTH)) for i in range(count)}
        first, _ = self._run(list(own.values()), "f")
        self.runs = StateRuns(
            self.problem,
            shown,
            self,  # type: ignore[arg-type]
            (first, own),
            self.weights,
            (guide("torch", *torch), guide("flax", *flax)),
            lambda outputs: float(np.abs(outputs[""] - output).max()),
            tolerances,
        )

    @property
    def right(self) -> State:
        """Each layer with its twin."""
        return self.state(*range(self.layers))

    def state(self, *twins: int, by: By = "order") -> State:
        """Flax's layers with torch's of these numbers."""
        pairs = {self.flax[i]: self.torch[twin] for i, twin in enumerate(twins)}
        return State({flax: Decision(self.problem.between(torch, flax)[0], by) for flax, torch in pairs.items()})

    def twins(self, state: State) -> list[str]:
        """torch's layers that Flax's have, in Flax's order."""
        return [state.decisions[flax].option.torch[0].path for flax in self.flax if flax in state.decisions]

    # %% As `FlaxRuns`

    def __call__(self, variables: dict[str, Any]) -> tuple[Activations, dict[str, Any]]:
        self.count += 1
        kernels = [np.asarray(variables[f"f{i}.kernel"]) for i in range(self.layers)]
        shown, output = self._run(kernels, "f", wrong=self.wrong)
        return shown, {"": output}

    def _run(self, kernels: list[Any], name: str, wrong: int = -1) -> tuple[Activations, Any]:
        inputs, outputs = {}, {}
        values, beside = self.inputs, []
        for number, kernel in enumerate(kernels):
            is_beside = self.beside and number < 2
            given = self.inputs if is_beside else values
            gave = given @ kernel * (2.0 if number == wrong else 1.0)
            inputs[f"{name}{number}"], outputs[f"{name}{number}"] = fingerprint(np, given), fingerprint(np, gave)
            if is_beside:
                beside.append(gave if number == 0 or self.mirrored else np.tanh(gave))
                values = sum(beside)
            else:
                values = np.tanh(gave)
        return Activations(inputs, outputs, {path: place for place, path in enumerate(inputs)}), values
