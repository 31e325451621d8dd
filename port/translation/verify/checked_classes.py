"""Refuses CTC targets that are no class: torch would read and write outside of its arrays.

A proof tries lengths that the original was not made for, also fewer classes than the targets name. Most operators of
torch refuse an index that is out of range; its CTC loss on a CPU (aten/src/ATen/native/LossCTC.cpp) does not look, and
may end the process.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def checked_classes() -> AbstractContextManager[Any]:
    """Context manager: raise IndexError where a target of torch's CTC loss is no class."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class CheckedClasses(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func._schema.name == "aten::_ctc_loss":
                _check(args[0], args[1], args[3])
            return func(*args, **(kwargs or {}))

    return CheckedClasses()


def _check(log_probs: torch.Tensor, targets: torch.Tensor, target_lengths: Any) -> None:
    """Check the targets that are read; those after a target's length are padding.

    Args:
        log_probs: (time, batch, classes).
        targets: (batch, longest target), or all of them one after another.
        target_lengths: one for each target.

    Raises:
        IndexError: a target is no class.
    """
    # A list, a tensor, or a number for one text alone.
    lengths = target_lengths.flatten().tolist() if hasattr(target_lengths, "flatten") else list(target_lengths)
    rows = (
        [targets[: sum(lengths)]] if targets.dim() == 1 else [row[:n] for row, n in zip(targets, lengths, strict=True)]
    )
    classes = log_probs.shape[-1]
    for row in rows:
        if row.numel() and not 0 <= int(row.min()) <= int(row.max()) < classes:
            raise IndexError(f"a target of ctc_loss is none of its {classes} classes: {row.tolist()}")
