"""Inputs that have another length in each batch, for each of which JAX compiles an update anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

MOST_SHAPES = 2
"""Of an input: a full batch's, and the last one's of an epoch."""


def remarks_on_lengths(observed: Sequence[Mapping[str, torch.Tensor]]) -> list[str]:
    """A sentence, where some inputs are of as many shapes as there are batches, or nearly.

    Args:
        observed: what each watched step was given.
    """
    shapes: dict[str, set[torch.Size]] = {}
    for given in observed:
        for name, tensor in given.items():
            shapes.setdefault(name, set()).add(tensor.shape)
    found = [name for name, seen in shapes.items() if len(seen) > MOST_SHAPES]
    if not found:
        return []
    return [
        f"{', '.join(found)}: another length in each batch, and JAX compiles train_step anew for each new one: pad to "
        "one length, or to a few, where the batches are made"
    ]
