"""A translation at lengths that it never saw: right, or a sentence; never another number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from port.translation.frontend.resized_inputs import Sizes, resized, tensors_of, with_first_indices
from port.translation.frontend.single_layer import as_root
from port.translation.result import Translation
from port.translation.verify import OriginalAndWritten


def silently_wrong(module: torch.nn.Module, translation: Translation, args: Any, kwargs: dict[str, Any]) -> list[str]:
    """The lengths at which the written module gives something that the original does not; empty if there are none.

    Args:
        module: the original.
        translation: of it.
        args: example inputs; their lengths are changed in many ways.
        kwargs: those by name.
    """
    sides = OriginalAndWritten(as_root(module), translation, args, kwargs)
    found = []
    for sizes in _sets(translation, args, kwargs):
        given = resized(sides.args, sides.kwargs, sizes)
        try:
            compared = sides.compared(given, "there", training=False)
            if compared is None:
                # Indices may be too large for what is shorter now: torch looks at their values, JAX does not.
                given = with_first_indices(*given)
                compared = sides.compared(given, "there", training=False)
            if compared is None:
                sides.flax(given)
                found.append(f"{sizes}: the original refuses")
            elif not compared.agrees:
                found.append(f"{sizes}: {compared}")
        except Exception:
            continue  # a sentence, or JAX's own
    return found


def _sets(translation: Translation, args: Any, kwargs: dict[str, Any]) -> Iterator[Sizes]:
    """A second and a third set of the free lengths, a batch of 3, each free one of 1, each fixed one longer and 1."""
    lengths = translation.lengths
    example = lengths.of(args, kwargs)
    for change in (lambda n: n + 2, lambda n: 3 * n // 2 + 1):
        if example:
            yield lengths.sizes({name: change(size) for name, size in example.items()})
    batch = next((name for name in example if any(shape and shape[0] == name for shape in lengths.shapes)), None)
    if batch is not None and example[batch] != 3:
        yield lengths.sizes(example | {batch: 3})
    for name, size in example.items():
        if size != 1:
            yield lengths.sizes(example | {name: 1})
    for number, (shape, tensor) in enumerate(zip(lengths.shapes, tensors_of(args, kwargs), strict=True)):
        for axis, size in enumerate(shape):
            if isinstance(size, int):
                yield from ({(number, axis): other} for other in (tensor.shape[axis] + 1, 1) if other != size)
