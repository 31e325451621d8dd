"""Decide which lists of equal layers become stacks, and why others do not."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from port.errors import PortError
from port.parity.sides.precision import cpu_precision
from port.translation.artifact.written_module import WrittenModule
from port.translation.assembling import assembled
from port.translation.frontend.example_inputs import Given
from port.translation.frontend.meta_device import is_on_meta
from port.translation.programs import ModelProgram
from port.translation.structure.layer_stacks import CannotScan, LayerStack, layer_stacks
from port.translation.structure.remat import Remat
from port.translation.structure.scanned_calls import said_of


@dataclass(frozen=True)
class Stacking:
    """The lists of layers that are stacked.

    Attributes:
        stacks: the lists that become one stack each.
        apart: the lists that stay lists, with the reasons.
    """

    stacks: tuple[LayerStack, ...] = ()
    apart: tuple[str, ...] = ()


NO_STACKS = Stacking()
_NONE = "no list of equal layers is called in a loop, or one after the other"


def stacking_of(base: ModelProgram, remat: Remat) -> Stacking:
    """Find the lists of a model that can be stacks, by constructing and calling the source on shapes only.

    Args:
        base: the model's program.
        remat: the classes whose activations are recomputed in the backward pass.
    """
    found = layer_stacks(base.program)
    if not found:
        return Stacking(apart=(f"nothing is stacked: {_NONE}",))
    if not _stacking_error(base, remat, found):
        return Stacking(tuple(found))
    # Layers that drop nothing often have code of their own: ``if self.rate == 0: return x``.
    others = {(stack.owner, stack.held): stack for stack in layer_stacks(base.program, zeros_apart=True)}
    chosen: list[LayerStack] = []
    apart = []
    for stack in found:
        why = _stacking_error(base, remat, [*chosen, stack])
        other = others.get((stack.owner, stack.held), stack)
        if not why:
            chosen.append(stack)
        elif other != stack and not _stacking_error(base, remat, [*chosen, other]):
            chosen.append(other)
        else:
            apart.append(f"{stack} stays a list: {why}")
    return Stacking(tuple(chosen), tuple(apart))


def _stacking_error(base: ModelProgram, remat: Remat, stacks: Collection[LayerStack]) -> str:
    """Return why these lists of a model cannot be stacks; empty if they can."""
    try:
        made, _ = assembled(base, remat=remat, stacks=stacks)
        if made.unwritten:
            return "the source has places that are left to write"
        made.check_built()
        if not is_on_meta(base.captured.root):
            for written, case in zip((made, *made.others), base.cases, strict=True):
                _check_called(written, (case.args, case.kwargs))
    except (CannotScan, PortError) as error:
        return str(error)
    except Exception as error:  # from the source: a layer may need concrete values
        return said_of(error)
    return ""


def _check_called(written: WrittenModule, example: Given) -> None:
    """Check that a written module can be called in either mode, without making an array.

    It is called in float32, its default, even where 64-bit types are enabled: there ``float`` in a source would be
    wider than its parameters, which a scan cannot carry.

    Raises:
        Exception: the source's own error.
    """
    from flax import nnx

    args, kwargs = example
    with cpu_precision(written.needs_x64):
        arguments = written.boundary.to_flax(args, kwargs)
        for training in (False, True):
            with written.filled_later():
                model = nnx.eval_shape(lambda: written.constructor(rngs=nnx.Rngs(0)))
            model.train() if training else model.eval()
            nnx.eval_shape(lambda model: written.boundary.call(model, arguments), model)
