"""torch's own samples of an operator as a module that can be translated, and what comes of translating it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import port
from port.errors import PortError
from port.judging import Status
from port.pairs.ops import OperatorPair
from port.translation.lowering import paired

DTYPES = (torch.float64, torch.int64, torch.complex128, torch.bool)
"""What samples are taken of: the first that the operator takes."""


class Calls(torch.nn.Module):
    """Calls an operator as several samples do; their tensors are its inputs, all else is constant."""

    def __init__(self, call: Any, samples: list[Any]) -> None:
        super().__init__()
        self.call = call
        self.samples: list[Any] = []
        self.invariant: list[Any] = []  # what is left of a result once what is free, as signs, is taken away
        self.given: tuple[torch.Tensor, ...] = ()
        for sample in samples:
            leaves, tree = pytree.tree_flatten((sample.input, list(sample.args), dict(sample.kwargs)))
            self.given += tuple(leaf.detach() for leaf in leaves if isinstance(leaf, torch.Tensor))
            self.invariant.append(getattr(sample, "output_process_fn_grad", _same))
            self.samples.append(([None if isinstance(leaf, torch.Tensor) else (leaf,) for leaf in leaves], tree))

    def forward(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        results: list[torch.Tensor] = []
        given = iter(tensors)
        for (leaves, tree), invariant in zip(self.samples, self.invariant, strict=True):
            filled = [next(given) if leaf is None else leaf[0] for leaf in leaves]
            first, more, named = pytree.tree_unflatten(filled, tree)
            made = pytree.tree_leaves(invariant(self.call(first, *more, **named)))
            results += [result for result in made if isinstance(result, torch.Tensor)]
        return results


def _same(made: Any) -> Any:
    return made


@dataclass
class Outcome:
    """What came of an operator's samples.

    Attributes:
        agree: how many samples agree.
        elsewhere: how many of them in their values alone: their pair says that JAX's gradient is another one.
        unjudged: why those of which the proof says nothing cannot be judged.
        refused: how many were refused, and with what words.
        wrong: what differs or does not run.
    """

    agree: int = 0
    elsewhere: int = 0
    unjudged: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def __add__(self, other: Outcome) -> Outcome:
        return Outcome(
            self.agree + other.agree,
            self.elsewhere + other.elsewhere,
            self.unjudged + other.unjudged,
            self.refused + other.refused,
            self.wrong + other.wrong,
        )


def samples_of(info: Any, most: int) -> list[Any]:
    """Some of an operator's samples, from all parts of their list; not those that are sparse, as no array of JAX is."""
    dtype = next((dtype for dtype in DTYPES if dtype in info.dtypes), None)
    if dtype is None:
        return []
    with torch.random.fork_rng():
        torch.manual_seed(0)
        samples = [sample for sample in info.sample_inputs("cpu", dtype) if not _is_sparse(sample)]
    return samples[:: math.ceil(len(samples) / most) or 1]


def _is_sparse(sample: Any) -> bool:
    leaves = pytree.tree_leaves((sample.input, list(sample.args), dict(sample.kwargs)))
    return any(isinstance(leaf, torch.Tensor) and leaf.layout != torch.strided for leaf in leaves)


def outcome(call: Any, samples: list[Any], wrap: Any = Calls) -> Outcome:
    """Translate calls of an operator: all samples at once, and by halves where that does not agree."""
    if not samples:
        return Outcome()
    with pairs_used() as used:
        found = _translated(wrap(call, samples))
    if isinstance(found, Outcome):
        gradients_alone = False
    elif found.proof.agrees:
        return Outcome(agree=len(samples))
    else:
        rows = [row for row in found.proof.rows if not row.agrees]
        gradients_alone = not found.proof.failed and all(row.what.startswith("gradients") for row in rows)
    if len(samples) > 1:
        middle = len(samples) // 2
        return outcome(call, samples[:middle], wrap) + outcome(call, samples[middle:], wrap)
    if isinstance(found, Outcome):
        return found
    if gradients_alone and any(pair.other_gradient for pair in used):
        return Outcome(agree=1, elsewhere=1)
    if found.proof.status is Status.CANNOT_JUDGE:
        return Outcome(unjudged=[_why_unjudged(found.proof)])
    (sample,) = samples
    return Outcome(wrong=[f"{found.proof}\n{_told(sample)}\n{found.source}"])


def _translated(module: Calls) -> Any:
    """The translation; or the outcome where there is none."""
    try:
        made = port.translate(module, module.given)
    except PortError as error:
        return Outcome(refused=[str(error)])
    except Exception as error:
        import traceback

        frames = traceback.extract_tb(error.__traceback__)[-6:]
        where = " < ".join(f"{frame.filename.rpartition('/port/')[2]}:{frame.lineno}" for frame in reversed(frames))
        told = [_told(pytree.tree_unflatten([x if x is None else x[0] for x in xs], t)) for xs, t in module.samples]
        shapes = [tuple(x.shape) for x in module.given]
        return Outcome(wrong=[f"{type(error).__name__}: {error}\n{where}\n{shapes} {told}"])
    if made.unwritten:
        return Outcome(refused=[f"{item.what}: {item.why}" for item in made.unwritten][:1])
    return made


def _why_unjudged(proof: Any) -> str:
    rows = [f"{row.what}: {row.unjudged}" for row in proof.rows if row.unjudged]
    return str(next(filter(None, [proof.unjudged, *rows, *proof.remarks]), "nothing was compared"))


def _told(sample: Any) -> str:
    tree = sample if isinstance(sample, tuple) else (sample.input, sample.args, sample.kwargs)
    return str(pytree.tree_map(lambda x: tuple(x.shape) if isinstance(x, torch.Tensor) else x, tree))[:600]


@contextmanager
def pairs_used() -> Iterator[list[OperatorPair]]:
    """The pairs that a translation takes."""
    used: list[OperatorPair] = []
    matching = paired.matching

    def noted(*args: Any) -> Any:
        found = matching(*args)
        if found is not None:
            used.append(found[0])
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paired, "matching", noted)
        yield used
