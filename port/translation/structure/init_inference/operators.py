"""The stories of torch operators' outputs, derived from those of their inputs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import torch
from torch.utils import _pytree as pytree

from port.translation.structure.init_inference.elementwise import ELEMENTWISE, elementwise, is_number, operand
from port.translation.structure.init_inference.shadows import REPEATED, Shadows, distinct, has_storage
from port.translation.structure.init_inference.stories import (
    FAR,
    UNSET,
    Draw,
    Elementwise,
    Fixed,
    Foreign,
    Number,
    Story,
    Unsaid,
)

_UNSET = ("empty", "empty_strided", "empty_permuted", "empty_like", "new_empty", "new_empty_strided", "resize_")
_ZEROS, _ONES = ("zeros", "zeros_like", "new_zeros", "zero_"), ("ones", "ones_like", "new_ones")
_FULL = {"full": 1, "full_like": 1, "new_full": 2, "fill_": 1, "scalar_tensor": 0}  # which argument is the number
_COPIES = ("clone", "_to_copy", "contiguous", "lift_fresh", "lift_fresh_copy", "detach_copy", "alias_copy")
_MOVES = (
    *("cat", "stack", "flip", "roll", "tril", "triu", "tril_", "triu_", "constant_pad_nd", "view_copy", "permute_copy"),
    *("transpose_copy", "slice_scatter", "select_scatter", "diagonal_scatter", "diag_embed", "diagonal_copy"),
)
_FILLS = {
    "masked_fill": 2,
    "masked_fill_": 2,
    "index_fill_": 3,
    "index_put": 2,
    "index_put_": 2,
}  # which argument is the value
_RESHAPES = ("t_", "transpose_", "squeeze_", "unsqueeze_", "as_strided_", "swapaxes_", "swapdims_", "detach_", "set_")


class Operators:
    """Records every operator that runs.

    Args:
        shadows: the shadows of all tensors.

    Attributes:
        loading: while a state dict is loaded, a clause that says so; otherwise empty.
    """

    def __init__(self, shadows: Shadows) -> None:
        self.shadows, self.loading = shadows, ""
        self._events = count(1)

    def ran(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], made: Any) -> None:
        """Record that an operator ran and returned ``made``."""
        name, schema = function._schema.name.removeprefix("aten::"), function._schema.arguments
        taken = [tensor for tensor in _tensors((args, kwargs)) if has_storage(tensor)]
        before = {tensor.untyped_storage()._cdata for tensor in taken}
        targets = [tensor for tensor in _written(function, args, kwargs) if has_storage(tensor)] or [
            tensor for tensor in _tensors(made) if has_storage(tensor) and tensor.untyped_storage()._cdata not in before
        ]
        if targets and name not in _RESHAPES:
            results = {id(kwargs[argument.name]) for argument in schema if argument.is_out and argument.name in kwargs}
            taken = [tensor for tensor in taken if id(tensor) not in results]
            self._record(name, function, args, kwargs, targets, taken)

    def draw(self, target: Any, kind: str, *numbers: float) -> None:
        """Record that a tensor was drawn."""
        event = next(self._events)
        story: Story = Draw(kind, tuple(map(float, numbers)), event)
        if (kind == "normal" and numbers[1] == 0) or (kind == "uniform" and numbers[0] == numbers[1]):
            story = Number(float(numbers[0]))
        if kind == "truncated" and min(numbers[0] - numbers[2], numbers[3] - numbers[0]) > FAR * numbers[1]:
            story = Draw("normal", tuple(map(float, numbers[:2])), event)
        if has_storage(target):
            self.shadows.write(target, self.shadows.label(story), aligned=True)

    def from_numbers(self, made: Any) -> None:
        """Record that a tensor was made from numbers of Python or numpy."""
        if has_storage(made):
            self.shadows.write(made, self.shadows.label(Foreign(True)))

    def _record(
        self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], targets: list[Any], taken: Any
    ) -> None:
        shadows, target, base = self.shadows, targets[0], name.removesuffix("_")
        alone = len(targets) == 1
        if name in _UNSET:
            shadows.write(target, shadows.label(UNSET))
        elif torch.Tag.nondeterministic_seeded in function.tags:
            self._random(name, function, args, kwargs, targets)
        elif name in _ZEROS or name in _ONES:
            shadows.write(target, shadows.label(Number(float(name in _ONES))))
        elif name in _FULL and is_number(args[_FULL[name]]):
            shadows.write(target, shadows.label(Number(float(args[_FULL[name]]))))
        elif name in ("copy_", "fill_") and has_storage(args[1]):
            self._copy(target, args[1])
        elif name in _COPIES and has_storage(args[0]):
            shadows.write(target, shadows.read(args[0]), aligned=shadows.is_aligned(args[0]))
        elif base in ELEMENTWISE and alone and (found := elementwise(shadows, base, args, kwargs, target)):
            shadows.write(target, found[0], aligned=found[1])
        elif name in _MOVES and alone:
            # It moves elements and fills with zeros: applying it to the labels moves them alike.
            moved = pytree.tree_map_only(torch.Tensor, self._full, (args, kwargs))
            shadows.write(target, function(*moved[0], **moved[1]))
        elif name in _FILLS and alone and self._fill(name, function, args, kwargs, target):
            pass
        elif name == "linalg_qr" and self._is_normal(args[0]):
            event = next(self._events)
            q, r = targets
            shadows.write(q, shadows.label(Draw("q", (float(q.numel()),), event)), aligned=True)
            shadows.write(r, shadows.label(Draw("r", (), event)), aligned=True)
        else:
            self._otherwise(name, targets, taken)

    def _is_normal(self, tensor: Any) -> bool:
        labels = self.shadows.read(tensor)
        story = self.shadows.stories[labels] if isinstance(labels, int) else None
        return isinstance(story, Draw) and story.kind == "normal" and story.numbers == (0.0, 1.0)

    def _random(
        self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], targets: list[Any]
    ) -> None:
        schema = function._schema.arguments
        values = {argument.name: argument.default_value for argument in schema}
        values |= {argument.name: value for argument, value in zip(schema, args, strict=False)} | kwargs
        target, base = targets[0], name.removesuffix("_")
        if base == "uniform":
            self.draw(target, "uniform", values["from"], values["to"])
        elif base in ("rand", "rand_like"):
            self.draw(target, "uniform", 0.0, 1.0)
        elif base in ("randn", "randn_like"):
            self.draw(target, "normal", 0.0, 1.0)
        elif base in ("normal", "normal_functional") and is_number(values["mean"]) and is_number(values.get("std")):
            self.draw(target, "normal", values["mean"], values["std"])
        elif base == "exponential":
            uniform = Draw("uniform", (0.0, 1.0), next(self._events))
            logarithm = Elementwise("log1p", (Elementwise("neg", (uniform,)),))
            story = Elementwise("div", (Elementwise("neg", (logarithm,)), float(values["lambd"])))
            self.shadows.write(target, self.shadows.label(story), aligned=True)
        else:
            for made in targets:
                self.shadows.write(made, self.shadows.unsaid(f"torch's {name} draws it"))

    def _copy(self, target: Any, source: Any) -> None:
        labels = self.shadows.read(source)
        is_foreign = any(isinstance(self.shadows.stories[label], Foreign) for label in distinct(labels))
        if self.loading and is_foreign:
            self.shadows.write(target, self.shadows.unsaid(self.loading))
            return
        is_part = target.ndim or target.untyped_storage().nbytes() > target.nbytes
        if source.ndim == 0 and is_part and is_foreign:
            labels = operand(self.shadows, source).labels  # w[...] = 1
        if source.numel() < target.numel() and self.shadows.random(labels):
            labels = self.shadows.unsaid(REPEATED)
        elif isinstance(labels, torch.Tensor):
            labels = labels.expand(target.shape)
        self.shadows.write(target, labels, aligned=self.shadows.is_aligned(source))
        self.shadows.keep(target, source)

    def _full(self, tensor: Any) -> torch.Tensor:
        """A tensor's labels, one per element."""
        why = "it is made of an unusual kind of tensor"
        labels = self.shadows.read(tensor) if has_storage(tensor) else self.shadows.unsaid(why)
        return torch.as_tensor(labels, dtype=torch.int32).expand(tensor.shape).clone()

    def _fill(self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], target: Any) -> bool:
        """Label the elements that ``w[index] = value`` selects; return whether they could be determined."""
        place = _FILLS[name]
        value = args[place]
        chosen = [n for part in _tensors(args[1:place]) for n in distinct(self.shadows.read(part))]
        if target.is_meta or not all(isinstance(self.shadows.stories[n], Number | Fixed | Foreign) for n in chosen):
            return False
        if isinstance(value, torch.Tensor):
            labels = distinct(operand(self.shadows, value).labels)
            if len(labels) > 1 or self.shadows.random(labels[0]):
                return False
            label = labels[0]
        else:
            label = self.shadows.label(Number(float(value)) if is_number(value) else Fixed())
        one = torch.tensor(label, dtype=torch.int32) if isinstance(value, torch.Tensor) else label
        made = function(self._full(args[0]), *args[1:place], one, *args[place + 1 :], **kwargs)
        self.shadows.write(target, made)
        return True

    def _otherwise(self, name: str, targets: list[Any], taken: list[Any]) -> None:
        """Record an operator without a rule: what it computes from tables is a table."""
        stories = [self.shadows.stories[n] for tensor in taken for n in distinct(self.shadows.read(tensor))]
        label = self.shadows.label(_made_by(name.removeprefix("aten::"), stories))
        for target in targets:
            self.shadows.write(target, label)


def _made_by(name: str, stories: list[Story]) -> Story:
    """The story of an unknown operator's output."""
    for story in stories:
        if isinstance(story, Unsaid):
            return story
    random = [story for story in stories if isinstance(story, Draw | Elementwise)]
    if name in ("diag", "diagonal_copy") and [getattr(story, "kind", "") for story in random] == ["r"]:
        return random[0]
    if random:
        return Unsaid(f"torch's {name} makes it of random numbers")
    foreign = [story for story in stories if isinstance(story, Foreign)]
    return min(foreign, key=lambda story: story.from_code, default=Fixed())


def _written(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The tensors that an operator writes."""
    found: list[Any] = []
    for place, argument in enumerate(function._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            found += _tensors(args[place] if place < len(args) else kwargs.get(argument.name))
    return found


def _tensors(tree: Any) -> Iterator[Any]:
    return (leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor))
