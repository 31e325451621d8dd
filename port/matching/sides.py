"""Both models, run on the same inputs: torch's with random weights, Flax's with its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from port.errors import UsageError
from port.mapping.torch_guide import unwrapped
from port.matching.activations import Activations, FlaxRuns
from port.matching.random_weights import with_random_weights
from port.matching.units import ROLES
from port.parity.sides.building import flax_side
from port.parity.sides.calls import as_array
from port.parity.sides.cotangents import RandomCotangents
from port.parity.sides.inputs import for_flax, inputs_from
from port.parity.sides.layouts import layout_between
from port.parity.sides.torch_side import TorchSide

if TYPE_CHECKING:
    from port.parity.sides.building import Keywords
    from port.parity.sides.flax_side import FlaxSide
    from port.parity.sides.inputs import InputLayout, Inputs
    from port.parity.sides.run import Run
    from port.parity.sides.torch_side import TorchSide


@dataclass(frozen=True)
class Sides:
    """Both models, and one run of each.

    Attributes:
        module: torch's module, with random weights.
        torch: its side.
        flax: Flax's side.
        flax_module: as the user passed it.
        run: torch's run.
        inputs: torch's inputs.
        flax_inputs: Flax's inputs.
        runs: runs of Flax's side.
        own: the results of Flax's first run, with its own weights.
        layout: the inputs' layout.
        is_narrowed: whether either model goes through float32: casts float64 to it, or has a table in it, which the
            other may compute in float64.
        options: of `port.check`.
    """

    module: Any
    torch: TorchSide
    flax: FlaxSide
    flax_module: Any
    run: Run
    inputs: Inputs
    flax_inputs: Inputs
    runs: FlaxRuns
    own: Activations
    layout: InputLayout
    is_narrowed: bool
    options: dict[str, Any]


def both_sides(
    torch_module: Any,
    flax_module: Any,
    inputs: Any,
    channels_last: bool | None,
    flax_inputs: Any,
    flax_keywords: Keywords | None,
) -> Sides:
    """Run both models once; the arguments are those of `port.match`.

    Raises:
        UsageError: a model does not accept its inputs.
    """
    module = with_random_weights(unwrapped(torch_module))
    torch = TorchSide(module, "float64")
    converted = inputs_from(inputs, "float64")
    run = torch.run(converted, RandomCotangents(), training=False)
    layout = layout_between(torch, run, converted, channels_last)

    def side(layout: InputLayout) -> tuple[FlaxSide, Inputs, FlaxRuns, Activations]:
        theirs = for_flax(converted, layout) if flax_inputs is None else inputs_from(flax_inputs, "float64")
        flax = flax_side(flax_module, "float64", theirs, flax_keywords)
        runs = FlaxRuns(flax, theirs)
        return flax, theirs, runs, runs(flax.variables)[0]

    try:
        flax, theirs, runs, own = side(layout)
    except UsageError as error:
        # A Flax model may take channels first, as torch's does.
        if channels_last is not None or flax_inputs is not None or not layout.moved:
            raise
        channels_last = False
        layout = layout_between(torch, run, converted, False)
        try:
            flax, theirs, runs, own = side(layout)
        except UsageError:
            raise error from None
    options: dict[str, Any] = {"flax_keywords": flax_keywords, "channels_last": channels_last}
    if flax_inputs is not None:
        options["flax_inputs"] = flax_inputs
    narrowed = torch.narrowed(converted) or torch.widened(converted) or flax.narrowed(theirs) or flax.widened(theirs)
    narrowed = narrowed or _has_tables(module, torch)
    return Sides(module, torch, flax, flax_module, run, converted, theirs, runs, own, layout, narrowed, options)


def _has_tables(module: Any, torch: TorchSide) -> bool:
    """Whether constants of torch's model, which Flax's may compute, are rounded to float32: saved ones or not."""
    leaves = torch.guide.leaves.values()
    is_trained = any(leaf.collection == "params" and not leaf.is_frozen for leaf in leaves)
    constants = [
        torch.weights[leaf.name]
        for leaf in leaves
        if (leaf.is_frozen and is_trained)
        or (leaf.collection != "params" and ROLES.get(leaf.name.rpartition(".")[2]) is None)
    ]
    constants += [as_array(buffer) for name, buffer in module.named_buffers() if name not in torch.weights]
    return any(array.dtype == np.float32 and bool((array != array.round()).any()) for array in constants)
