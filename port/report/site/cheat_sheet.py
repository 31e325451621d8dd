"""The cheat sheet: one row for every pair, registered ones included. It is read from `port.pairs`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from port.pairs import LayerPair, OptimizerPair, ParamPair, layers, name_of, resolve
from port.pairs.expression import Expression
from port.pairs.losses import FUNCTIONS
from port.pairs.losses import PAIRS as LOSSES
from port.pairs.ops import OPERATORS, OperatorPair
from port.pairs.optimizers import all_optimizers
from port.pairs.registered import registered
from port.pairs.schedules import SCHEDULES, all_schedules, plateau_of, schedule_of
from port.pairs.schedules.examples import all_examples
from port.report.site.places import Place, place_of

WIDTH = 64  # columns of a call before it is wrapped
SHOWN_STEPS = 4  # of a schedule without a formula, which is tabulated


@dataclass(frozen=True)
class Twin:
    """A JAX counterpart of something in torch.

    Attributes:
        jax: its name, or a call.
        moves: where each parameter goes, one line each; for an operator, the conditions under which the two are equal.
        refused: why there is no counterpart; ``jax`` is then empty.
    """

    jax: str
    moves: tuple[str, ...] = ()
    refused: str = ""


@dataclass(frozen=True)
class CheatSheetEntry:
    """A row of the cheat sheet.

    Attributes:
        kind: "layer", "operator", "loss", "optimizer" or "schedule".
        torch: PyTorch's name, or a call of it.
        twins: the JAX counterparts. Of several, conversion builds the first that supports the layer's options.
        notes: ids of the notes that apply.
        place: where the pair is defined; None for a registered one.
    """

    kind: str
    torch: str
    twins: tuple[Twin, ...]
    notes: tuple[str, ...]
    place: Place | None


def cheat_sheet() -> list[CheatSheetEntry]:
    """Return every layer, operator, loss, optimizer and schedule that has a pair, in the order of the pairs.

    Schedules are read from live schedulers, which requires torch.
    """
    families = {name: family.PAIRS for name, family in vars(layers).items() if hasattr(family, "PAIRS")}
    return [
        *_entries("layer", registered(LayerPair)),
        *(entry for name, pairs in families.items() for entry in _entries("layer", pairs, f"layers/{name}.py")),
        *_operators(),
        *_entries("loss", LOSSES, "losses.py"),
        *_functions(),
        *_optimizers(),
        *_schedules(),
    ]


def _entries(kind: str, pairs: tuple[LayerPair, ...], where: str | None = None) -> Iterator[CheatSheetEntry]:
    """Yield one row for all pairs of one torch class."""
    for torch in dict.fromkeys(name_of(pair.torch) for pair in pairs):
        its = [pair for pair in pairs if name_of(pair.torch) == torch]
        twins = dict.fromkeys(_twin(pair) for pair in its)
        notes = dict.fromkeys(note for pair in its for note in pair.notes)
        place = None if where is None else place_of(torch, where)
        yield CheatSheetEntry(kind, short(torch), tuple(twins), tuple(notes), place)


def _twin(pair: LayerPair) -> Twin:
    flax = name_of(pair.flax)
    if flax == "flax.nnx.Module":  # a pair that only explains why there is no twin
        return Twin("", refused=pair.unfit(None) or "")
    return Twin(short(flax) + _options(pair, flax), _moves(pair))


def _options(pair: LayerPair, flax: str) -> str:
    """Return torch's defaults as a function's arguments, ``(…, approximate=False)``; may be empty."""
    if not flax.rpartition(".")[2].islower():
        return ""
    try:
        layer = resolve(pair.torch)()
    except (TypeError, ImportError):  # it requires arguments, or is the user's own class and cannot be imported
        return ""
    options = pair.arguments(layer) if pair.fits_torch(layer) else {}
    simple = {name: value for name, value in options.items() if isinstance(value, bool | int | float | str)}
    return f"(…, {', '.join(f'{name}={value!r}' for name, value in simple.items())})" if simple else ""


def _moves(pair: LayerPair) -> tuple[str, ...]:
    if callable(pair.params):
        return ("parameters move according to the layer's options",)
    return tuple(map(_moved, pair.params))


def _moved(param: ParamPair) -> str:
    moves = ", ".join(map(str, param.moves))
    torch, jax = " and ".join(param.torch_names), " and ".join(param.flax_names)
    if torch == jax and not moves:
        return f"{torch}, unchanged"
    return f"{torch} → {jax}" + (f", {moves}" if moves else "")


def _operators() -> Iterator[CheatSheetEntry]:
    own = registered(OperatorPair)
    for pair in (*own, *OPERATORS):
        holds = list(pair.imports)
        holds += [f"where {pair.only_if}"] if pair.only_if else []
        holds += [f"another gradient where {pair.other_gradient}"] if pair.other_gradient else []
        place = None if pair in own else place_of(pair.torch.removeprefix("torch.nn.functional."), "ops")
        yield CheatSheetEntry("operator", pair.says, (Twin(pair.jax, tuple(holds)),), pair.notes, place)


def _functions() -> Iterator[CheatSheetEntry]:
    for pair in FUNCTIONS:
        yield CheatSheetEntry("loss", pair.torch, (Twin(pair.jax),), pair.notes, place_of(pair.torch, "losses.py"))


def _optimizers() -> Iterator[CheatSheetEntry]:
    """Yield what torch's defaults become, or why they become nothing."""
    own = registered(OptimizerPair)
    for pair in all_optimizers():
        why = pair.refused(pair.defaults)
        twin = Twin("", refused=why) if why else Twin(short(pair.chain(pair.defaults).source(width=WIDTH)))
        place = None if pair in own else place_of(pair.torch, "optimizers")
        yield CheatSheetEntry("optimizer", short(pair.torch), (twin,), pair.notes, place)


def _schedules() -> Iterator[CheatSheetEntry]:
    import torch

    own = {pair.torch for pair in all_schedules()} - {pair.torch for pair in SCHEDULES}
    for example in all_examples():
        weight = torch.nn.Parameter(torch.zeros(1))
        scheduler = example.build()(torch.optim.SGD([weight], lr=0.1, momentum=0.9))
        name = example.body.function
        call = short(example.body.source(width=WIDTH + len("torch.optim.")))
        place = None if name in own else place_of(name, "schedules/formulas.py", "schedules/read.py")
        yield CheatSheetEntry("schedule", call, (Twin(_schedule(scheduler, name)),), (), place)


def _schedule(scheduler: Any, name: str) -> str:
    if name.endswith("ReduceLROnPlateau"):
        options = plateau_of(scheduler, 0).options
        return short(Expression("port.transforms.reduce_on_torch_plateau", (), options).source(width=WIDTH))
    schedule = schedule_of(scheduler, 0, steps=SHOWN_STEPS)
    said = (schedule.learning_rate, schedule.momentum)
    return "\n".join(_written(what) for what in said if what is not None)


def _written(what: Expression | float) -> str:
    if not isinstance(what, Expression):
        return str(what)
    source = short(what.source(width=WIDTH))
    # A schedule without a formula is written out step by step, up to the last step shown.
    return source.replace("]))", ", …]))") if what.function == "port.transforms.tabulated" else source


def short(name: str) -> str:
    """Shorten a name or a call, as code writes it that has imported nnx, linen and the schedulers' modules."""
    for whole, said in (
        ("torch.optim.lr_scheduler.", "lr_scheduler."),
        ("torch.optim.swa_utils.", "swa_utils."),
        ("flax.nnx.", "nnx."),
        ("flax.linen.", "linen."),
    ):
        name = name.replace(whole, said)
    return re.sub(r"(?<![\w.])transforms\.", "port.transforms.", name)
