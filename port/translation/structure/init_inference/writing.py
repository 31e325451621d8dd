"""Write a tensor's initialisation as the jax initializer that a person would use."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from port.translation.frontend.construction.draws import OpenDraw
from port.translation.ir import syntax
from port.translation.ir.expr import code, literal
from port.translation.structure.init_inference.constructions import Start
from port.translation.structure.init_inference.numbers import is_short
from port.translation.structure.init_inference.operator_expressions import operator_expression
from port.translation.structure.init_inference.regions import boxes_of, index_of
from port.translation.structure.init_inference.repeated import varying
from port.translation.structure.init_inference.stories import Draw, Elementwise, Fixed, Number, Story, Unsaid, is_matrix

# Scale and mode of jax's variance_scaling for the gains of torch.nn.init.
_BY_FANS = ((1.0, "fan_in"), (2.0, "fan_in"), (2.0, "fan_out"), (1.0, "fan_avg"), (1.0, "fan_out"))
# LeCun's scale for a normal distribution that is to be truncated at twice its deviation, as jax divides by it. torch's
# trunc_normal_ cuts at ±2 itself: where weights are small nothing is cut, and what is drawn is wider than LeCun's.
_LECUN_UNCUT = 1 / 0.87962566103423978**2


class Writer:
    """Writes initializers, and stores the tables that they need.

    Args:
        open_draws: names of parameters → their draw, where one of its numbers knows its origin.

    Attributes:
        tables: name → array, for the arrays that are stored whole.
        unsaid: names of parameters without a known initializer → why.
    """

    def __init__(self, open_draws: Mapping[str, OpenDraw] | None = None) -> None:
        self._open = open_draws or {}
        self.tables: dict[str, np.ndarray] = {}
        self.unsaid: dict[str, str] = {}
        self.votes: Counter[syntax.Expr] = Counter()

    def vote(self, start: Start) -> None:
        """Count the initializers that would fit: one that fits more parameters is likely the author's."""
        for story in start.stories:
            if isinstance(story, Draw):
                self.votes.update(set(_candidates(story, start.labels.shape)))

    def initializer(self, start: Start, name: str, shown: str) -> syntax.Expr:
        """Write the initializer of a tensor, in the layout of the written module.

        Args:
            start: its initialisation.
            name: the tensor's name in the original.
            shown: how the source refers to it: a class and an attribute.
        """
        for story in start.stories:
            if isinstance(story, Unsaid):
                return self._unknown(name, shown, story.why)
        if start.only is not None:
            made = self._of(start.only, start, start.labels.shape, name)
        else:
            made = self.in_parts(start, name)
            if made is None and start.is_fixed:
                made = self._of(Fixed(), start, start.labels.shape, name)
        return made or self._unknown(name, shown, "no initializer says how the original draws it")

    def in_parts(self, start: Start, name: str) -> syntax.Expr | None:
        """Write one initializer for most elements, and others for regions."""
        counts = np.bincount(varying(start.labels).ravel(), minlength=len(start.stories))
        each_alone = [
            isinstance(story, Number | Draw | Elementwise) and not is_matrix(story) for story in start.stories
        ]
        base = max((n for n, alone in enumerate(each_alone) if alone), key=lambda n: counts[n], default=None)
        made = code("nnx.initializers.constant(n)", n=0.0)
        regions: list[syntax.Expr] = []
        for number, story in enumerate(start.stories):
            if number == base:
                made = self._of(story, start, start.labels.shape, name) or made
                continue
            boxes = boxes_of(start.labels == number)
            if boxes is None:
                return None
            for box in boxes:
                part = replace(
                    start, stories=(story,), labels=np.zeros_like(start.labels[box]), values=start.values[box]
                )
                drawn = self._of(story, part, part.labels.shape, name)
                if drawn is None:
                    return None
                index = index_of(box, start.labels.shape, plain=isinstance(story, Number))
                regions.append(syntax.Tuple((index, drawn)))
        return syntax.Call(code("port.nn.patched"), (made, *regions))

    def table(self, values: np.ndarray, name: str) -> str:
        """Store an array whole; return the name under which it is stored."""
        for known, array in self.tables.items():
            if array.dtype == values.dtype and array.shape == values.shape and array.tobytes() == values.tobytes():
                return known
        own, number = name, 2
        while own in self.tables:
            own, number = f"{name}.{number}", number + 1
        self.tables[own] = np.ascontiguousarray(values)
        return own

    def _unknown(self, name: str, shown: str, why: str) -> syntax.Expr:
        self.unsaid[name] = why
        return code("port.nn.unknown_start(shown, why)", shown=shown, why=why)

    def _of(self, story: Story, start: Start, shape: tuple[int, ...], name: str) -> syntax.Expr | None:
        match story:
            case Number(value):
                return code("nnx.initializers.constant(n)", n=value)
            case Fixed():
                return code("TABLES.initializer(name)", name=self.table(start.values, name))
            case Draw("orthogonal", (gain, size)):
                if start.row_axis is None or math.prod(shape) != size:
                    return None  # part of an orthogonal matrix, which is not orthogonal itself
                axis = start.row_axis - len(shape)
                options = {"scale": gain} if gain != 1 else {}
                return called("nnx.initializers.orthogonal", **options, **({"column_axis": axis} if axis != -1 else {}))
            case Draw("uniform" | "truncated") if start.values.dtype.kind == "c":
                return None  # jax's uniform and truncated initializers draw real numbers only
            case Draw():
                # Prefer the original's own formula, though a weight's shape may yield the same number here.
                drawn = self._with_origins(story, name)
                if drawn is not None:
                    return next(_plain(drawn))
                return max(_candidates(story, shape), key=lambda made: self.votes[made], default=None)
            case Elementwise():
                return _function(story)
        return None

    def _with_origins(self, draw: Draw, name: str) -> Draw | None:
        """The same draw with numbers that know their origin; None where none does."""
        known = self._open.get(name)
        if known is None or known.kind != draw.kind or len(known.numbers) != len(draw.numbers):
            return None
        if not all(math.isclose(*both, rel_tol=1e-9) for both in zip(known.numbers, draw.numbers, strict=True)):
            return None
        return replace(draw, numbers=known.numbers)


def _candidates(draw: Draw, shape: tuple[int, ...]) -> list[syntax.Expr]:
    """The initializers with exactly this distribution, simplest first."""
    plain = list(_plain(draw))
    of_layers: list[syntax.Expr] = []
    by_fans: list[syntax.Expr] = []
    match draw.kind, draw.numbers:
        case "uniform", (low, high) if low == -high:
            of_layers = list(_of_layers(high / math.sqrt(3), shape))
            by_fans = list(_by_fans(high / math.sqrt(3), shape, "uniform"))
        case "normal", (mean, std) if mean == 0:
            by_fans = list(_by_fans(std, shape, "normal"))
    is_plain = not plain or (is_short(draw.numbers[1]) and not (by_fans and _is_a_root(draw.numbers[1])))
    return [*of_layers, *plain, *by_fans] if is_plain else [*of_layers, *by_fans, *plain]


def _is_a_root(value: float) -> bool:
    """Whether a number is 1/16, 1/32 or less: short by chance, as the root of a fan that is a power of two."""
    return 0 < value < 0.1 and math.isclose(value, 2.0 ** round(math.log2(value)), rel_tol=1e-12)


def _plain(draw: Draw) -> Iterator[syntax.Expr]:
    """Write a draw's numbers as an initializer."""
    match draw.kind, draw.numbers:
        case "uniform", (0, high):
            yield code("nnx.initializers.uniform(scale=high)", high=high)
        case "uniform", (low, high):
            yield code("port.nn.torch_uniform(low, high)", low=low, high=high)
        case "normal", (mean, std):
            yield _shifted(code("nnx.initializers.normal(std)", std=std), mean)
        case "truncated", (mean, std, low, high):
            bounds = {"lower": _rounded((low - mean) / std), "upper": _rounded((high - mean) / std)}
            options = {} if bounds == {"lower": -2.0, "upper": 2.0} else bounds
            yield _shifted(called("nnx.initializers.truncated_normal", std, **options), mean)


def called(function: str, *arguments: Any, **options: Any) -> syntax.Expr:
    """Write a call."""
    keywords = tuple(syntax.Keyword(name, literal(value)) for name, value in options.items())
    return syntax.Call(code(function), tuple(map(literal, arguments)), keywords)


def _rounded(value: float) -> float:
    """Remove rounding errors of single precision."""
    near = round(value, 6)
    return near if math.isclose(near, value, rel_tol=1e-6) else value


def _shifted(drawn: syntax.Expr, mean: float) -> syntax.Expr:
    if mean == 0:
        return drawn
    return code("port.nn.mapped(lambda x: x + mean, drawn)", mean=mean, drawn=drawn)


def _by_fans(std: float, shape: tuple[int, ...], kind: str) -> Iterator[syntax.Expr]:
    """Variance scalings that yield this standard deviation for a weight of this shape."""
    fans = _fans(shape)
    for scale, mode in (*_BY_FANS, *([(_LECUN_UNCUT, "fan_in")] if kind == "normal" else [])):
        if mode in fans and math.isclose(math.sqrt(scale / fans[mode]), std, rel_tol=1e-9):
            yield code("nnx.initializers.variance_scaling(s, m, k)", s=scale, m=mode, k=kind)


def _of_layers(std: float, shape: tuple[int, ...]) -> Iterator[syntax.Expr]:
    """Initializers of torch's layers, if they yield this standard deviation for a weight of this shape.

    They scale by the number of inputs; in a table that is shared with a layer, the axes are exchanged.
    """
    fans = _fans(shape)
    if fans and math.isclose(math.sqrt(1 / 3 / fans["fan_in"]), std, rel_tol=1e-9):
        yield code("port.nn.torch_kernel()")
    if fans and math.isclose(math.sqrt(1 / 3 / fans["fan_out"]), std, rel_tol=1e-9):
        yield code("nnx.initializers.variance_scaling(1 / 3, 'fan_out', 'uniform')")


def _fans(shape: tuple[int, ...]) -> dict[str, float]:
    """The fans by which jax's variance_scaling scales; none for a bias."""
    if len(shape) < 2 or not math.prod(shape):
        return {}
    window = math.prod(shape[:-2])
    fan_in, fan_out = shape[-2] * window, shape[-1] * window
    return {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}


# %% Functions of random numbers


def _function(story: Elementwise) -> syntax.Expr | None:
    """Write ``mapped(lambda x: jnp.log(x + 0.1), nnx.initializers.uniform(scale=1.0))``."""
    drawn: list[Draw] = []
    body = _body(story, drawn)
    if body is None:
        return None
    bases = _candidates(drawn[0], ())
    if not bases:
        return None
    return code("port.nn.mapped(function, drawn)", function=syntax.Lambda(("x",), body), drawn=bases[-1])


def _body(story: Any, drawn: list[Draw]) -> syntax.Expr | None:
    match story:
        case Draw():
            drawn.append(story)
            return syntax.Name("x")
        case Elementwise(name, arguments):
            made = [_body(part, drawn) for part in arguments]
            parts = [part for part in made if part is not None]
            if len(parts) < len(made):
                return None
            if name == "clamp":
                return syntax.Call(code("jnp.clip"), tuple(parts))
            return operator_expression(name, parts)
        case None:
            return syntax.Const(None)
    return literal(story)
