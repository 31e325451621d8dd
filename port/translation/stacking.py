"""Which lists of equal layers become one stack each, and why others do not."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from port.errors import PortError
from port.parity.sides.precision import cpu_precision
from port.translation.artifact.written_module import WrittenModule
from port.translation.assembling import assembled
from port.translation.frontend.example_inputs import Given
from port.translation.frontend.meta_device import is_on_meta
from port.translation.programs import Programmed
from port.translation.structure.layer_stacks import CannotScan, LayerStack, layer_stacks
from port.translation.structure.remat import Remat
from port.translation.structure.scanned_calls import said_of


@dataclass(frozen=True)
class Stacking:
    """What is stacked.

    Attributes:
        stacks: the lists that are one stack each.
        apart: what stays as it is, and why: a sentence each.
    """

    stacks: tuple[LayerStack, ...] = ()
    apart: tuple[str, ...] = ()


NO_STACKS = Stacking()
_NONE = "no list of equal layers is gone through in a loop, or called one after the other"


def stacking_of(said: Programmed, remat: Remat) -> Stacking:
    """The lists of a model that can be stacks: what is written with them is constructed and called, on shapes alone.

    Args:
        said: the model.
        remat: whose activations are computed again.
    """
    found = layer_stacks(said.program)
    if not found:
        return Stacking(apart=(f"nothing is stacked: {_NONE}",))
    if not _why_not(said, remat, found):
        return Stacking(tuple(found))
    # Layers that drop nothing are often written as others are not: ``if self.rate == 0: return x``.
    others = {(stack.owner, stack.held): stack for stack in layer_stacks(said.program, zeros_apart=True)}
    chosen: list[LayerStack] = []
    apart = []
    for stack in found:
        why = _why_not(said, remat, [*chosen, stack])
        other = others.get((stack.owner, stack.held), stack)
        if not why:
            chosen.append(stack)
        elif other != stack and not _why_not(said, remat, [*chosen, other]):
            chosen.append(other)
        else:
            apart.append(f"{stack} stays a list: {why}")
    return Stacking(tuple(chosen), tuple(apart))


def _why_not(said: Programmed, remat: Remat, stacks: Collection[LayerStack]) -> str:
    """Why the lists of a model cannot be stacks; empty where they can."""
    try:
        made, _ = assembled(said, remat=remat, stacks=stacks)
        if made.unwritten:
            return "the source has places that are left to write"
        made.check_built()
        if not is_on_meta(said.captured.root):
            for written, case in zip((made, *made.others), said.cases, strict=True):
                _check_called(written, (case.args, case.kwargs))
    except (CannotScan, PortError) as error:
        return str(error)
    except Exception as error:  # the source's own: what a layer does may need its numbers
        return said_of(error)
    return ""


def _check_called(written: WrittenModule, given: Given) -> None:
    """See that a written module can be called in either mode; no array is made.

    It is called as it is constructed by default, in float32, also where the process has 64-bit types: there, what a
    source calls ``float`` is wider than its parameters, and no scan carries that.

    Raises:
        Exception: the source's own.
    """
    from flax import nnx

    args, kwargs = given
    with cpu_precision(written.needs_x64):
        arguments = written.boundary.to_flax(args, kwargs)
        for training in (False, True):
            with written.filled_later():
                model = nnx.eval_shape(lambda: written.constructor(rngs=nnx.Rngs(0)))
            model.train() if training else model.eval()
            nnx.eval_shape(lambda model: written.boundary.call(model, arguments), model)
