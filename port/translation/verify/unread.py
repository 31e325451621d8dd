"""Find state that the original's results depend on and that the written module does not read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from port.mapping import TORCH_ONLY
from port.parity.sides.calls import Arrays
from port.parity.sides.copies import copied
from port.translation.verify.torch_run import torch_run

if TYPE_CHECKING:
    import torch

    from port.translation.artifact.written_module import WrittenModule


def unread_and_felt(
    module: torch.nn.Module,
    translation: WrittenModule,
    call: Any,
    training: bool,
    seed: int,
    outputs: Arrays,
) -> list[str]:
    """Return the state dict's entries that the written module lacks and that the original's outputs depend on.

    Each entry's values are changed, and the original is run again. An entry without effect, as of a head that this mode
    does not call, may be left out.

    Args:
        module: the original; not modified.
        translation: the written module.
        call: (args, kwargs).
        training: the mode.
        seed: seeds all draws.
        outputs: the original's outputs with its own values.
    """
    names = [
        f"{translation.prefix}{name}"
        for entry in translation.mapping.entries
        if entry.collection == TORCH_ONLY
        for name in entry.sources
        if not name.endswith("num_batches_tracked")  # no output depends on a count
    ]

    def matter(some: list[str]) -> bool:
        other = copied(module)
        held = {**dict(other.named_parameters(remove_duplicate=False)), **dict(other.named_buffers())}
        for name in some:
            if name in held:
                held[name].data = _other(held[name].data, seed)
        try:
            run = torch_run(other, call, training, seed)
        except Exception:  # the user's code refuses the changed values
            return False
        return any(
            not np.array_equal(a, b, equal_nan=True)
            for a, b in zip(outputs.values(), run.outputs.values(), strict=True)
        )

    if not names or not matter(names):
        return []
    return [name.removeprefix(translation.prefix) for name in names if matter([name])]


def _other(tensor: torch.Tensor, seed: int) -> torch.Tensor:
    """Return other values of the same kind: indices stay valid indices."""
    import torch

    if tensor.layout is not torch.strided:
        return 2 * tensor
    if tensor.is_floating_point() or tensor.is_complex():
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.rand(tensor.shape, generator=generator, dtype=torch.float64) + 0.5
        return tensor * drawn.to(tensor.dtype) + 0.25
    if tensor.dtype is torch.bool:
        return ~tensor
    flipped = tensor.flatten().flip(0).reshape(tensor.shape)
    return flipped if not torch.equal(flipped, tensor) else tensor + 1
