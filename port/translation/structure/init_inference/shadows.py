"""Shadows of storages: the story of every element of every watched tensor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from port.translation.structure.init_inference.stories import Foreign, Number, Story, Unsaid, events

REPEATED = "it repeats what was drawn once"

Labels = int | torch.Tensor
"""Indices of stories: one for all elements, or one for each."""


@dataclass
class Shadow:
    """What is known about a storage.

    Attributes:
        reference: keeps the storage's address from being reused, but not its memory.
        labels: indices of stories, for all elements or each.
        width: bytes per element.
        aligned: whether its elements are in the order in which one draw produced them.
        numbers: what was copied into the whole of it, if it is on the meta device and so holds no numbers.
    """

    reference: StorageWeakRef
    labels: Labels
    width: int
    aligned: bool
    numbers: torch.Tensor | None = None


class Shadows:
    """The shadows of all storages that an operator has met; views share their storage's.

    A tensor that no watched operator made is `Foreign`.
    """

    ZERO = 0
    """The label of the number 0: operators that fill with zeros fill labels with it, too."""

    def __init__(self) -> None:
        self.stories: list[Story] = [Number(0.0)]
        self._numbers: dict[Story, int] = {Number(0.0): 0}
        self._shadows: dict[int, Shadow] = {}

    def label(self, story: Story) -> int:
        """The index of a story."""
        if story not in self._numbers:
            self._numbers[story] = len(self.stories)
            self.stories.append(story)
        return self._numbers[story]

    def read(self, tensor: torch.Tensor) -> Labels:
        """The labels of a tensor's elements, in its shape; a single number where all are the same."""
        shadow = self._of(tensor)
        if 0 in tensor.stride() and tensor.untyped_storage().nbytes() < tensor.nbytes and self.random(shadow.labels):
            return self.unsaid(REPEATED)
        if isinstance(shadow.labels, int):
            return shadow.labels
        if tensor.element_size() != shadow.width:
            return self.label(Foreign(False))
        return torch.as_strided(shadow.labels, tensor.shape, tensor.stride(), tensor.storage_offset())

    def write(self, tensor: torch.Tensor, labels: Labels, *, aligned: bool = False) -> None:
        """Set the labels of a tensor's elements."""
        shadow = self._of(tensor)
        count = tensor.untyped_storage().nbytes() // tensor.element_size()
        whole = tensor.numel() == count
        if isinstance(labels, torch.Tensor) and labels.numel() and bool((labels == labels.flatten()[0]).all()):
            labels = int(labels.flatten()[0])
        if whole and isinstance(labels, int):
            shadow.labels, shadow.width = labels, tensor.element_size()
        elif not (isinstance(labels, int) and isinstance(shadow.labels, int) and labels == shadow.labels):
            if isinstance(shadow.labels, int) or shadow.width != tensor.element_size():
                before = shadow.labels if isinstance(shadow.labels, int) else self.label(Foreign(False))
                shadow.labels, shadow.width = torch.full((count,), before, dtype=torch.int32), tensor.element_size()
            view = torch.as_strided(shadow.labels, tensor.shape, tensor.stride(), tensor.storage_offset())
            view.copy_(torch.as_tensor(labels, dtype=torch.int32))
        shadow.aligned, shadow.numbers = whole and aligned, None

    def keep(self, tensor: torch.Tensor, source: torch.Tensor) -> None:
        """Keep a table that was copied into a whole tensor on the meta device, which holds no numbers."""
        if not tensor.is_meta or source.is_meta or not tensor.is_contiguous():
            return
        is_whole = tensor.numel() == tensor.untyped_storage().nbytes() // tensor.element_size()
        if is_whole and not self.random(self.read(tensor)):
            self._of(tensor).numbers = source.detach().to(tensor.dtype).expand(tensor.shape).clone()

    def numbers(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """A tensor's numbers; None for one on the meta device whose numbers are unknown."""
        if not tensor.is_meta:
            return tensor.detach()
        kept = self._of(tensor).numbers
        return kept if kept is not None and kept.shape == tensor.shape else None

    def is_aligned(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor is a whole storage, its elements in the order of one draw."""
        count = tensor.untyped_storage().nbytes() // tensor.element_size()
        return self._of(tensor).aligned and tensor.is_contiguous() and tensor.numel() == count

    def knows(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor's storage is known."""
        return tensor.untyped_storage()._cdata in self._shadows

    def random(self, labels: Labels) -> bool:
        """Whether any of the labels belongs to a random story."""
        return any(events(self.stories[label]) for label in distinct(labels))

    def unsaid(self, why: str) -> int:
        """The label of a story without an initialiser."""
        return self.label(Unsaid(why))

    def _of(self, tensor: torch.Tensor) -> Shadow:
        storage = tensor.untyped_storage()
        if storage._cdata not in self._shadows:
            foreign = self.label(Foreign(False))
            self._shadows[storage._cdata] = Shadow(StorageWeakRef(storage), foreign, tensor.element_size(), False)
        return self._shadows[storage._cdata]


def has_storage(tensor: Any) -> bool:
    """Whether a tensor has ordinary strided memory, unlike a sparse or wrapped one."""
    return isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided and type(tensor) in _PLAIN


_PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


def distinct(labels: Labels | Any) -> list[int]:
    """The distinct labels."""
    return [labels] if isinstance(labels, int) else [int(label) for label in torch.unique(labels)]
