"""Operators that work element by element: the stories of their outputs from those of their inputs."""

from __future__ import annotations

import math
from typing import Any

import torch

from port.translation.structure.init_inference.shadows import REPEATED, Labels, Shadows, has_storage
from port.translation.structure.init_inference.stories import Draw, Fixed, Foreign, Number, combined

ELEMENTWISE = (
    *("add", "sub", "rsub", "mul", "div", "neg", "pow", "exp", "expm1", "log", "log1p", "log2", "sqrt", "rsqrt"),
    *("abs", "sign", "erfinv", "erf", "sin", "cos", "tan", "tanh", "sigmoid", "square", "reciprocal", "clamp"),
    *("clamp_min", "clamp_max"),
)


class Labelled:
    """An argument that is a tensor."""

    def __init__(self, labels: Labels) -> None:
        self.labels = labels


def elementwise(
    shadows: Shadows, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], target: Any
) -> tuple[Labels, bool] | None:
    """The labels of an element-wise operator's output, and whether they are aligned with a draw.

    Args:
        shadows: the shadows of all tensors.
        name: the operator's name, without the ``_`` of in-place variants.
        args: the call's positional arguments.
        kwargs: the call's keyword arguments.
        target: the tensor that it wrote.

    Returns:
        None for an unusual kind of call.
    """
    name, arguments = _in_order(name, args, kwargs)
    sources = [part for part in arguments if isinstance(part, torch.Tensor)]
    if not all(is_number(part) or part is None or has_storage(part) for part in arguments):
        return None
    # A tensor that was overwritten no longer holds its earlier value.
    parts: list[Any] = [
        part
        if not isinstance(part, torch.Tensor)
        else Labelled(shadows.read(part))
        if part is target
        else operand(shadows, part)
        for part in arguments
    ]
    drawn = [source for source in sources if shadows.random(shadows.read(source))]
    if kwargs.get("rounding_mode") or (kwargs.get("alpha", 1) != 1 and drawn):
        return None
    if any(source.numel() < target.numel() and not _is_sign(shadows, source) for source in drawn):
        return shadows.unsaid(REPEATED), False
    aligned = all(shadows.is_aligned(source) or _is_sign(shadows, source) for source in drawn)
    return _each(shadows, name, parts, aligned), aligned


def operand(shadows: Shadows, tensor: Any) -> Labelled:
    """A tensor's labels; a table that repeats one number counts as that number."""
    labels = shadows.read(tensor)
    is_table = isinstance(labels, int) and isinstance(shadows.stories[labels], Fixed | Foreign)
    if is_table and tensor.numel() and not tensor.is_meta and not tensor.is_complex():
        first = tensor.flatten()[0]
        if bool((tensor == first).all()):
            return Labelled(shadows.label(Number(float(first))))
    return Labelled(labels)


def is_number(value: Any) -> bool:
    """Whether a value is a real number."""
    return isinstance(value, int | float) and not math.isnan(value)


def _in_order(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, list[Any]]:
    """Reduce an operator to one of fewer: clamp takes (x, least, most)."""
    least = args[1] if len(args) > 1 else kwargs.get("min")
    most = args[2] if len(args) > 2 else kwargs.get("max")
    match name:
        case "rsub":
            return "sub", [args[1], args[0]]
        case "clamp":
            return "clamp", [args[0], least, most]
        case "clamp_min":
            return "clamp", [args[0], least, None]
        case "clamp_max":
            return "clamp", [args[0], None, args[1] if len(args) > 1 else kwargs.get("max")]
    return name, list(args)


def _is_sign(shadows: Shadows, tensor: Any) -> bool:
    """Whether a tensor holds the signs that make a random matrix uniform, one per column."""
    labels = shadows.read(tensor)
    story = shadows.stories[labels] if isinstance(labels, int) else None
    return isinstance(story, Draw) and story.kind == "sign"


def _each(shadows: Shadows, name: str, parts: list[Any], aligned: bool) -> Labels:
    """The labels of an operator's output, for every combination of its arguments' labels."""
    labels: list[Any] = [part.labels for part in parts if isinstance(part, Labelled)]

    def story(numbers: list[int]) -> int:
        remaining = iter(numbers)
        operands = tuple(shadows.stories[next(remaining)] if isinstance(part, Labelled) else part for part in parts)
        return shadows.label(combined(name, operands, aligned))

    if all(isinstance(part, int) for part in labels):
        return story(labels)
    full = torch.broadcast_tensors(*(torch.as_tensor(part, dtype=torch.int32) for part in labels))
    rows, places = torch.unique(torch.stack([part.flatten() for part in full]), dim=1, return_inverse=True)
    made = torch.tensor([story([int(number) for number in row]) for row in rows.T], dtype=torch.int32)
    return made[places].reshape(full[0].shape)
