"""What a tensor's numbers are when it is new: the story of each, and what an operator makes of stories."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Number:
    """One number, everywhere."""

    value: float


@dataclass(frozen=True)
class Fixed:
    """Numbers that every construction gives alike: a table. They are read off the tensor itself."""


@dataclass(frozen=True)
class Foreign:
    """Numbers that torch did not make while it was watched.

    Attributes:
        given: whether the code handed numbers of Python's or numpy's over; otherwise they were in a tensor before.
    """

    given: bool


@dataclass(frozen=True)
class Draw:
    """Random numbers, each for itself.

    Attributes:
        kind: ``uniform`` (low, high), ``normal`` (mean, std), ``truncated`` (mean, std, low, high: of a normal);
            ``orthogonal`` (gain, count of elements), which is a matrix drawn whole; ``q`` (count of elements), ``r``
            and ``sign`` on the way to one.
        numbers: as the kind says.
        event: which draw it was, so that a copy is known.
    """

    kind: str
    numbers: tuple[float, ...]
    event: int


@dataclass(frozen=True)
class Elementwise:
    """A function of random numbers, element by element.

    Attributes:
        name: of the operator: ``log``, ``mul``.
        arguments: stories and numbers.
    """

    name: str
    arguments: tuple[Story | float | None, ...]


@dataclass(frozen=True)
class Unsaid:
    """What has no initialiser, and why: a clause behind the parameter's name."""

    why: str


Story = Number | Fixed | Foreign | Draw | Elementwise | Unsaid

FAR = 8.0
"""Bounds of a normal distribution that no draw meets, in standard deviations."""

UNSET = Unsaid("torch.empty leaves it unset")


def events(story: Story) -> frozenset[int]:
    """The draws that a story is made of."""
    match story:
        case Draw():
            return frozenset({story.event})
        case Elementwise():
            parts = (events(part) for part in story.arguments if isinstance(part, Draw | Elementwise))
            return frozenset().union(*parts)
    return frozenset()


def without_events(story: Any) -> Any:
    """A story that equals those of other constructions."""
    match story:
        case Draw("orthogonal"):
            return story  # each matrix is one for itself
        case Draw():
            return Draw(story.kind, story.numbers, 0)
        case Elementwise():
            return Elementwise(story.name, tuple(map(without_events, story.arguments)))
    return story


def alike(one: Story, other: Story) -> bool:
    """Whether two stories tell of the same distribution, or of the same number."""
    match without_events(one), without_events(other):
        case Draw() as mine, Draw() as theirs:
            one_draw = mine.event == theirs.event or not is_matrix(mine)
            return mine.kind == theirs.kind and _close(mine.numbers, theirs.numbers) and one_draw
        case Elementwise() as mine, Elementwise() as theirs:
            pairs = zip(mine.arguments, theirs.arguments, strict=False)
            return (
                mine.name == theirs.name
                and len(mine.arguments) == len(theirs.arguments)
                and all(
                    alike(a, b)
                    if isinstance(a, Story) and isinstance(b, Story)
                    else type(a) is type(b) and (a is None or _close((a,), (b,)))  # type: ignore[arg-type]
                    for a, b in pairs
                )
            )
        case mine, theirs:
            return bool(mine == theirs)


def _close(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return len(one) == len(other) and all(
        math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-15) for a, b in zip(one, other, strict=True)
    )


# %% Element by element


def combined(name: str, parts: tuple[Story | float | None, ...], aligned: bool) -> Story:
    """What an operator gives that works element by element.

    Args:
        name: the operator's, without the ``_`` of in-place ones.
        parts: its arguments: stories, and numbers as such.
        aligned: whether random arguments stand element against element as they were drawn.
    """
    stories = [part for part in parts if isinstance(part, Story)]
    for story in stories:
        if isinstance(story, Unsaid):
            return story
    random = [story for story in stories if isinstance(story, Draw | Elementwise)]
    if not random:
        foreign = [story for story in stories if isinstance(story, Foreign)]
        return min(foreign, key=lambda story: story.given, default=Fixed())
    numbers = tuple(part.value if isinstance(part, Number) else part for part in parts)
    if any(isinstance(part, Fixed | Foreign) for part in numbers):
        return Unsaid("each of its elements is drawn in another way")
    if any(map(is_matrix, random)):
        return _of_matrix(name, numbers)
    if len(random) > 1 and (not aligned or len(frozenset().union(*map(events, random))) > 1):
        return Unsaid("it is made of several draws")
    return _simple(name, numbers) or Elementwise(name, numbers)  # type: ignore[arg-type]


_MATRICES = ("q", "r", "sign", "orthogonal")


def is_matrix(story: Story) -> bool:
    """Whether elements are drawn together."""
    return isinstance(story, Draw) and story.kind in _MATRICES


def _of_matrix(name: str, parts: tuple[Any, ...]) -> Story:
    """On the way to an orthogonal matrix, as torch.nn.init.orthogonal_ goes it: q · sign(diag r) · gain."""
    match name, parts:
        case "sign", (Draw("r", (), event),):
            return Draw("sign", (), event)
        case "mul", (Draw("q", (size,), event), Draw("sign", (), same)) if event == same:
            return Draw("orthogonal", (1.0, size), event)
        case "mul", (Draw("orthogonal", (gain, size), event), float() | int() as by):
            return Draw("orthogonal", (gain * by, size), event)
    return Unsaid("it is computed of a random matrix")


def _simple(name: str, parts: tuple[Any, ...]) -> Story | None:
    """A known distribution, where it stays one."""
    match name, parts:
        case "neg", (Draw() as draw,):
            return _affine(draw, -1.0, 0.0)
        case "erfinv", (Draw("uniform", (low, high), event),) if -1 <= low < high <= 1:
            # √2 · erfinv(u) is normal where u is uniform from −1 to 1.
            if low == -high == -1:
                return Draw("normal", (0.0, math.sqrt(0.5)), event)
            return Draw("truncated", (0.0, math.sqrt(0.5), _erfinv(low), _erfinv(high)), event)
        case "clamp", (Draw("truncated", (_, std, low, high)) as draw, least, most):
            slack = 1e-5 * std
            if (least is None or least <= low + slack) and (most is None or most >= high - slack):
                return draw
        case "clamp", (Draw("normal", (mean, std)) as draw, least, most):
            if (least is None or mean - least > FAR * std) and (most is None or most - mean > FAR * std):
                return draw
        case "mul", (Draw() as draw, float() | int() as by) | (float() | int() as by, Draw() as draw):
            return _affine(draw, by, 0.0)
        case "div", (Draw() as draw, float() | int() as by) if by:
            return _affine(draw, 1 / by, 0.0)
        case "add", (Draw() as draw, float() | int() as by) | (float() | int() as by, Draw() as draw):
            return _affine(draw, 1.0, by)
        case "sub", (Draw() as draw, float() | int() as by):
            return _affine(draw, 1.0, -by)
        case "sub", (float() | int() as by, Draw() as draw):
            return _affine(draw, -1.0, by)
    return None


def _affine(draw: Draw, by: float, shift: float) -> Story | None:
    """``by`` · draw + ``shift``."""
    if by == 0:
        return Number(shift)
    match draw.kind, draw.numbers:
        case "uniform", (low, high):
            ends = sorted((by * low + shift, by * high + shift))
            return Draw("uniform", tuple(ends), draw.event)
        case "normal", (mean, std):
            return Draw("normal", (by * mean + shift, abs(by) * std), draw.event)
        case "truncated", (mean, std, low, high):
            ends = sorted((by * low + shift, by * high + shift))
            return Draw("truncated", (by * mean + shift, abs(by) * std, *ends), draw.event)
    return None


def _erfinv(value: float) -> float:
    import torch

    return float(torch.erfinv(torch.tensor(value, dtype=torch.float64)))
