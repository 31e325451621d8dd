"""Stories: the provenance of each number in a new tensor, and how operators combine stories."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Number:
    """The same number everywhere."""

    value: float


@dataclass(frozen=True)
class Fixed:
    """Numbers that are equal in every construction: a table. They are read from the tensor itself."""


@dataclass(frozen=True)
class Foreign:
    """Numbers that torch did not compute while it was watched.

    Attributes:
        from_code: whether the code supplied them as Python or numpy numbers; otherwise they were in a tensor already.
    """

    from_code: bool


@dataclass(frozen=True)
class Draw:
    """Independent random numbers.

    Attributes:
        kind: ``uniform`` (low, high), ``normal`` (mean, std), ``truncated`` (mean, std, low, high: of a normal);
            ``orthogonal`` (gain, count of elements), a matrix drawn as a whole; ``q`` (count of elements), ``r`` and
            ``sign`` as intermediate steps of one.
        numbers: the parameters listed under ``kind``.
        event: which draw it was, so that copies can be recognised.
    """

    kind: str
    numbers: tuple[float, ...]
    event: int


@dataclass(frozen=True)
class Elementwise:
    """An element-wise function of random numbers.

    Attributes:
        name: the operator's name: ``log``, ``mul``.
        arguments: stories and numbers.
    """

    name: str
    arguments: tuple[Story | float | None, ...]


@dataclass(frozen=True)
class Unsaid:
    """Numbers without an initialiser, and why: a clause that follows the parameter's name."""

    why: str


Story = Number | Fixed | Foreign | Draw | Elementwise | Unsaid

FAR = 8.0
"""Bounds of a normal distribution, in standard deviations, that no draw reaches."""

UNSET = Unsaid("torch.empty leaves it unset")


def events(story: Story) -> frozenset[int]:
    """The draws that a story contains."""
    match story:
        case Draw():
            return frozenset({story.event})
        case Elementwise():
            parts = (events(part) for part in story.arguments if isinstance(part, Draw | Elementwise))
            return frozenset().union(*parts)
    return frozenset()


def without_events(story: Any) -> Any:
    """A story that compares equal to those of other constructions."""
    match story:
        case Draw("orthogonal"):
            return story  # each matrix is a draw of its own
        case Draw():
            return Draw(story.kind, story.numbers, 0)
        case Elementwise():
            return Elementwise(story.name, tuple(map(without_events, story.arguments)))
    return story


def alike(one: Story, other: Story) -> bool:
    """Whether two stories describe the same distribution or the same number."""
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
    """The story of an element-wise operator's output.

    Args:
        name: the operator's name, without the ``_`` of in-place variants.
        parts: its arguments: stories, and plain numbers.
        aligned: whether random arguments are aligned element by element, as they were drawn.
    """
    stories = [part for part in parts if isinstance(part, Story)]
    for story in stories:
        if isinstance(story, Unsaid):
            return story
    random = [story for story in stories if isinstance(story, Draw | Elementwise)]
    if not random:
        foreign = [story for story in stories if isinstance(story, Foreign)]
        return min(foreign, key=lambda story: story.from_code, default=Fixed())
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
    """Whether the elements are drawn together."""
    return isinstance(story, Draw) and story.kind in _MATRICES


def _of_matrix(name: str, parts: tuple[Any, ...]) -> Story:
    """Follow the steps of torch.nn.init.orthogonal_ towards an orthogonal matrix: q · sign(diag r) · gain."""
    match name, parts:
        case "sign", (Draw("r", (), event),):
            return Draw("sign", (), event)
        case "mul", (Draw("q", (size,), event), Draw("sign", (), same)) if event == same:
            return Draw("orthogonal", (1.0, size), event)
        case "mul", (Draw("orthogonal", (gain, size), event), float() | int() as by):
            return Draw("orthogonal", (gain * by, size), event)
    return Unsaid("it is computed of a random matrix")


def _simple(name: str, parts: tuple[Any, ...]) -> Story | None:
    """The result as a known distribution, if it still is one."""
    match name, parts:
        case "neg", (Draw() as draw,):
            return _affine(draw, -1.0, 0.0)
        case "erfinv", (Draw("uniform", (low, high), event),) if -1 <= low < high <= 1:
            # √2 · erfinv(u) is normal if u is uniform in (−1, 1).
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
    """The story of ``by`` · draw + ``shift``."""
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
