"""Find the layout of Flax's inputs from the layers that take torch's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from port.parity.sides.inputs import AS_IT_IS, InputLayout, Inputs, layout_of

if TYPE_CHECKING:
    from port.parity.sides.run import Run
    from port.parity.sides.torch_side import TorchSide


def layout_between(side: TorchSide, run: Run, inputs: Inputs, channels_last: bool | None) -> InputLayout:
    """Return the layout of the inputs, from the first call of a torch layer whose pair has a channel axis.

    Args:
        side: torch's side.
        run: one of its runs.
        inputs: torch's inputs.
        channels_last: the user's choice; None to infer the layout.
    """
    pairs = {layer.path: layer.pairs[0] for layer in side.guide.layers if layer.pairs}
    for call in run.calls:
        channels = pairs[call.path].channels if call.path in pairs else None
        shapes = [array.shape for array in call.inputs.values()]
        if channels is not None and shapes and -len(shapes[0]) <= channels < len(shapes[0]):
            return layout_of(inputs, call, channels % len(shapes[0]), channels_last=channels_last)
    return layout_of(inputs, None, None, channels_last=channels_last) if channels_last else AS_IT_IS
