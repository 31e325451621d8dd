"""Other functions of the same tensors than torch's: a sum instead of a mean, another axis, swapped operands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

import torch
from torch.nn import functional as F

from port.parity.diagnose.causes.operation import Arguments, Explanation, TorchOperation, Way, do, having, instead

RANK = 4
"""These are tried after the known mistakes of each function."""
_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "mean": torch.mean,
    "sum": torch.sum,
    "maximum": torch.amax,
    "minimum": torch.amin,
    "norm": torch.linalg.vector_norm,
}
_REDUCED = {"mean": "mean", "sum": "sum", "amax": "maximum", "amin": "minimum", "norm": "norm", "vector_norm": "norm"}
_OF_ONE: dict[str, dict[str, Callable[[Any], Any]]] = {
    "softmax": {"sigmoid": torch.sigmoid},
    "softplus": {"exp": torch.exp},
    "exp": {"softplus": F.softplus, "expm1": torch.expm1},
    "sin": {"cos": torch.cos},
    "cos": {"sin": torch.sin},
    "rsqrt": {"1/x": torch.reciprocal, "sqrt": torch.sqrt},
    "sqrt": {"rsqrt": torch.rsqrt},
    "log": {"log1p": torch.log1p, "log2": torch.log2, "log10": torch.log10},
    "abs": {"square": torch.square},
    "square": {"abs": torch.abs},
    "floor": {"round": torch.round, "ceil": torch.ceil},
    "round": {"floor": torch.floor},
    "argmin": {},
}
_OF_TWO: dict[str, dict[str, Callable[[Any, Any], Any]]] = {
    "add": {"a product": torch.mul, "a difference": torch.sub},
    "sub": {"a sum": torch.add},
    "mul": {"a sum": torch.add, "a quotient": torch.div},
    "div": {"a product": torch.mul},
    "lt": {"≤": torch.le, ">": torch.gt, "≥": torch.ge},
    "le": {"<": torch.lt, "≥": torch.ge, ">": torch.gt},
    "gt": {"≥": torch.ge, "<": torch.lt, "≤": torch.le},
    "ge": {">": torch.gt, "≤": torch.le, "<": torch.lt},
    "eq": {"≠": torch.ne},
    "ne": {"=": torch.eq},
    "minimum": {"the maximum": torch.maximum},
    "maximum": {"the minimum": torch.minimum},
}
_SIGNS = {"add": "a sum", "sub": "a difference", "mul": "a product", "div": "a quotient", "lt": "<", "le": "≤"}
_SIGNS |= {"gt": ">", "ge": "≥", "eq": "=", "ne": "≠", "minimum": "the minimum", "maximum": "the maximum"}
_SAME_RESULT = ("softmax", "log_softmax", "mean", "sum", "var", "std", "amax", "amin", "logsumexp", "normalize")
_REDUCING = ("mean", "sum", "var", "std", "amax", "amin", "logsumexp")
_ALONG_ONE = (
    "cumsum",
    "cumprod",
    "argmax",
    "argmin",
    "topk",
    "sort",
    "argsort",
    "flip",
    "roll",
    "norm",
    "cat",
    "stack",
)
_AXES = (*_SAME_RESULT, *_ALONG_ONE, "vector_norm", "median", "prod", "cosine_similarity", "logcumsumexp", "max", "min")
_BY_PLACE = {"flip": "1", "argsort": "1", "sort": "1", "roll": "2", "max": "1", "min": "1", "norm": "2"}


def reduction(operation: TorchOperation) -> Iterator[Way]:
    """A sum instead of a mean, a maximum instead of a sum, and so on, over the same axes."""
    own = _REDUCED.get(operation.name, "")
    if not own or not _is_floating(operation.input):
        return
    dim, keeps = operation.arguments.get("dim"), bool(operation.arguments.get("keepdim", False))
    if dim is None and operation.name == "norm":
        return
    for other, function in _REDUCTIONS.items():
        if other != own:

            def run(_: Any, arguments: Arguments, function: Callable[..., Any] = function) -> Any:
                x = next(iter(arguments.values()))
                axes = tuple(range(x.ndim)) if dim is None else dim
                return function(x, dim=axes, keepdim=keeps)

            kind = "mean-or-sum" if {own, other} == {"mean", "sum"} else "another-reduction"
            why = f"torch takes the {own}, Flax the {other}"
            yield Way(kind, why, run, f"Take the {own}.", rank=RANK)


def spread(operation: TorchOperation) -> Iterator[Way]:
    """The variance instead of the deviation, or vice versa."""
    if operation.name in ("std", "var"):
        other = torch.var if operation.name == "std" else torch.std
        names = ("deviation", "variance") if operation.name == "std" else ("variance", "deviation")
        why = f"torch takes the {names[0]}, Flax the {names[1]}"
        run = _by(other)
        yield Way("variance-or-deviation", why, run, f"Take the {names[0]}.", rank=RANK)


def axis(operation: TorchOperation) -> Iterator[Way]:
    """The same function along other axes."""
    key, own = _axis_of(operation)
    first = operation.input[0] if isinstance(operation.input, list | tuple) and operation.input else operation.input
    if own is None or not torch.is_tensor(first) or operation.name in ("softmax", "log_softmax"):
        return
    rank = first.ndim + (operation.name == "stack")
    listed = own if isinstance(own, tuple | list) else (own,)
    places = tuple(sorted(place % rank for place in listed))
    # All axes, another set of the same size, and all but the batch axis.
    others = [*combinations(range(rank), len(places)), tuple(range(rank)), tuple(range(1, rank))]
    for other in dict.fromkeys(others):
        if other == places or (operation.name not in _SAME_RESULT and len(other) != len(places)):
            continue
        said = [str(list(each)) if len(each) != 1 else str(each[0]) for each in (places, other)]
        why = f"torch's {operation.name} is along axis {said[0]} of {rank}, Flax's along axis {said[1]}"
        run = having(**{key: other if isinstance(own, tuple | list) or len(other) > 1 else other[0]})
        yield Way("another-axis", why, run, f"Give it axis {said[0]}.", rank=RANK)
        if operation.name in _REDUCING and not operation.arguments.get("keepdim"):
            why = f"torch reduces along axis {said[0]} of {rank}, Flax along axis {said[1]}, which it keeps"
            kept = having(**{key: other if len(other) > 1 else other[0], "keepdim": True})
            yield Way("another-axis", why, kept, f"Give it axis {said[0]}.", rank=RANK)


def _axis_of(operation: TorchOperation) -> tuple[str, Any]:
    """Return the name and value of the argument that holds an operation's axes."""
    if operation.name in _AXES:
        for key in ("dim", "dims", "axis", _BY_PLACE.get(operation.name, "")):
            own = operation.arguments.get(key)
            axes = own if isinstance(own, tuple | list) else (own,)
            if axes and all(isinstance(each, int) and not isinstance(each, bool) for each in axes):
                return key, own
    return "", None


def of_one(operation: TorchOperation) -> Iterator[Way]:
    """Another function of one tensor."""
    if not _is_floating(operation.input):
        return
    for name, function in _OF_ONE.get(operation.name, {}).items():
        why = f"torch takes {operation.name}, Flax {name}"
        yield Way("another-function", why, instead(function), f"Take {operation.name}.", rank=RANK)
    if operation.name in ("sin", "cos"):
        why = "Flax takes the sine where torch takes the cosine, and the other way round"
        other = torch.cos if operation.name == "sin" else torch.sin
        yield Way("sine-and-cosine", why, instead(other), "Exchange the two.", rank=RANK)


def extreme(operation: TorchOperation) -> Iterator[Way]:
    """The smallest instead of the largest."""
    for own, other, said in (("argmin", torch.argmax, "smallest"), ("argmax", torch.argmin, "largest")):
        if operation.name == own:
            opposite = "largest" if said == "smallest" else "smallest"
            why = f"torch takes the place of the {said}, Flax of the {opposite}"
            yield Way("another-function", why, _by(other), f"Call jnp.{own}.", rank=RANK)
    if operation.name == "topk":
        k, largest = operation.arguments.get("k"), bool(operation.arguments.get("largest", True))
        why = f"torch takes the {'largest' if largest else 'smallest'}, Flax the others' end"
        yield Way("another-function", why, having(largest=not largest), "Take those that torch takes.", rank=RANK)
        for other_k in (k - 1, k + 1) if isinstance(k, int) else ():
            if other_k > 0:
                why = f"torch takes the first {k}, Flax {other_k}"
                yield Way("number-taken", why, having(k=other_k), f"Take {k}.", rank=RANK)


def of_two(operation: TorchOperation) -> Iterator[Way]:
    """Another function of the same two operands, or the same function with the operands swapped."""
    base, values = operation.base, [*operation.arguments.values()]
    if len(values) < 2 or not torch.is_tensor(values[0]):
        return
    for name, function in _OF_TWO.get(base, {}).items():
        why = f"torch takes {_SIGNS.get(base, base)}, Flax {name}"

        def run(_: Any, arguments: Arguments, function: Callable[[Any, Any], Any] = function) -> Any:
            one, two, *_ = arguments.values()
            return function(one, two if torch.is_tensor(two) else torch.as_tensor(two, dtype=_dtype(one)))

        remedy = f"Take {_SIGNS.get(base, base)}."
        yield Way("another-function", why, run, remedy, rank=RANK)
    if base == "mul" and torch.is_tensor(values[1]):
        for key, value in operation.operands.items():
            why = "Flax multiplies by 1 + what torch multiplies by"
            yield Way("scale-plus-one", why, having(**{key: 1 + value}), "Multiply without adding 1.", rank=RANK)
    if base in ("sub", "div", "pow", "matmul", "rsub", "rdiv") and torch.is_tensor(values[1]):
        why = f"Flax exchanges the two sides of torch's {base}"
        yield Way("operands-exchanged", why, _exchanged, "Exchange them.", rank=RANK)


def chosen(operation: TorchOperation) -> Iterator[Way]:
    """``where`` with swapped choices, a triangle with another diagonal, rows repeated in another order."""
    name, arguments = operation.name, operation.arguments
    if name == "where" and len(arguments) >= 3:
        why = "Flax takes torch's second choice where torch takes its first"

        def run(function: Any, arguments: Arguments) -> Any:
            values = list(arguments.values())
            picks = [value for value in values if not (torch.is_tensor(value) and value.dtype == torch.bool)]
            (condition,) = [value for value in values if torch.is_tensor(value) and value.dtype == torch.bool]
            return torch.where(~condition, *picks)

        yield Way("choice-reversed", why, run, "Exchange the two choices.", rank=RANK)
    if name in ("tril", "triu"):
        own = arguments.get("diagonal", 0)
        for other in (own - 1, own + 1):
            why = f"torch's triangle begins {own} from the diagonal, Flax's {other}"
            yield Way("triangle-shifted", why, having(diagonal=other), f"Let it begin at {own}.", rank=RANK)
        other_half = torch.tril if name == "triu" else torch.triu
        why = f"torch takes the {'upper' if name == 'triu' else 'lower'} triangle, Flax the other"
        yield Way("other-triangle", why, _by(other_half), f"Call jnp.{name}.", rank=RANK)
    times, dim = arguments.get("repeats"), arguments.get("dim")
    if name == "repeat_interleave" and isinstance(times, int) and isinstance(dim, int):
        why = "torch repeats each element consecutively (repeat_interleave), Flax repeats the whole axis"

        def tiled(function: Any, arguments: Arguments) -> Any:
            x = next(iter(arguments.values()))
            return torch.cat([x] * times, dim)

        remedy = "Call jnp.repeat, not jnp.tile."
        yield Way("repeated-in-turn", why, tiled, remedy, rank=RANK, together=2)
    if name in ("repeat", "tile") and torch.is_tensor(operation.input):
        counts = [value for key, value in arguments.items() if key != next(iter(arguments))]
        counts = list(counts[0]) if counts and isinstance(counts[0], tuple | list) else counts
        axes = [place for place, count in enumerate(counts) if count != 1]
        if len(axes) == 1 and len(counts) == operation.input.ndim:
            why = f"torch repeats the whole axis ({name}), Flax each element consecutively"
            beside = instead(lambda x: x.repeat_interleave(counts[axes[0]], axes[0]))
            yield Way("repeated-beside", why, beside, "Call jnp.tile, not jnp.repeat.", rank=RANK, together=2)


def bounds(operation: TorchOperation) -> Iterator[Way]:
    """A clamp without one of its bounds."""
    for name, said in (("min", "lower"), ("max", "upper")):
        other = "max" if name == "min" else "min"
        if operation.name == "clamp" and None not in (operation.arguments.get(name), operation.arguments.get(other)):
            why = f"torch's clamp has a {said} bound, Flax's none"
            yield Way("bound-missing", why, having(**{name: None}), f"Pass jnp.clip the {said} bound.", rank=RANK)


def _by(function: Callable[..., Any]) -> Any:
    """Return a run that calls another function with the same arguments."""
    return lambda _, arguments: do(function, arguments)


def _exchanged(function: Any, arguments: Arguments) -> Any:
    (one, first), (two, second), *others = arguments.items()
    return do(function, {one: second, two: first, **dict(others)})


def _is_floating(value: Any) -> bool:
    return torch.is_tensor(value) and value.is_floating_point()


def _dtype(value: Any) -> Any:
    return value.dtype if torch.is_tensor(value) else None


EXPLANATIONS: tuple[Explanation, ...] = (reduction, spread, axis, of_one, extreme, of_two, chosen, bounds)
