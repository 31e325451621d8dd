"""What an optimizer's pair is: torch's class, the optax chain that does the same, and where its state lives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from port.pairs.expression import Expression
from port.pairs.optimizers.options import Takes

Options = Mapping[str, Any]
"""A parameter group's options under torch's names. ``lr``, ``momentum`` and the first of ``betas`` may be an
`Expression` of a schedule, or a `Name` that `optax.inject_hyperparams` gives its value."""

STEP = "step"
"""torch's name of the count of updates, which is the same for every parameter of one chain."""

CHANGE_NOTHING = frozenset({"foreach", "fused", "capturable", "differentiable"})
"""Options of torch's own optimizers that say how an update is computed, not which."""


def _nothing(options: Options) -> str | None:
    return None


@dataclass(frozen=True)
class OptimizerPair:
    """A torch optimizer and the optax chain that takes the same steps.

    Attributes:
        torch: torch's class, by its public name; ``"__main__.Lion"`` for a notebook's.
        name: what `port.optim.by_name` calls it.
        defaults: the options of a group under torch's names, with torch's defaults: those that change an update.
        chain: the options of a group → the optax transformation, learning rate and sign included.
        state: optax's state class → its field → torch's key in a parameter's state. Fields that torch has no key for
            are left out: they are to be what a fresh state has, as a count that no update looks at.
        takes: an option → which values it takes; by default those of its default's kind.
        conflict: why some options, each of which is taken, cannot stand together.
        ignored: options of torch's that change no update.
        scalars: those of torch's keys that hold one number a parameter, the same for all that were stepped together.
        scalars_anew: whether torch makes them anew in each step, in its default dtype, whatever it keeps them in.
        flags: fields of optax's that say whether torch has the key at all.
        in_torch_layout: whether an update depends on how a tensor is laid out: on which axes are its rows, or on what
            is one tensor and what are several. The chain then works on torch's tensors: see `port.optim.layout`.
        schedules_momentum: torch's option that CyclicLR and OneCycleLR move beside the learning rate.
        takes_first_rate: the learning rate is only looked at in a parameter's first step.
        own_count: the chain asks the schedule for its own count of updates, not for the schedule's.
        rate_in_its_dtype: torch computes with a rate that is a tensor in the tensor's dtype; the others make a number
            of it.
        counts: whether torch counts a parameter's steps, under `STEP`.
        whole_count: whether that count is a Python int; torch's own keep a tensor.
        complex_alike: whether torch steps a complex parameter as one of complex numbers, not of pairs of real ones.
        closure: the whole step needs the loss as a function, and its memory is one for all parameters: LBFGS alone.
        refused: why there is no such chain, and what is nearest.
        foreign: why a group with these options, of a checkpoint, is another class's.
        remark: what a person should know who moves a group with these options out of a checkpoint.
        notes: ids of the differences that a reader should know of.
    """

    torch: str
    name: str
    defaults: Mapping[str, Any]
    chain: Callable[[Options], Expression]
    state: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    takes: Mapping[str, Takes] = field(default_factory=dict)
    conflict: Callable[[Options], str | None] = _nothing
    ignored: frozenset[str] = CHANGE_NOTHING
    scalars: frozenset[str] = frozenset()
    scalars_anew: bool = False
    flags: Mapping[str, str] = field(default_factory=dict)
    in_torch_layout: bool = False
    schedules_momentum: str | None = None
    takes_first_rate: bool = False
    own_count: bool = False
    rate_in_its_dtype: bool = False
    counts: bool = True
    whole_count: bool = False
    complex_alike: bool = False
    closure: bool = False
    refused: Callable[[Options], str | None] = _nothing
    foreign: Callable[[Options], str | None] = _nothing
    remark: Callable[[Options], str | None] = _nothing
    notes: tuple[str, ...] = ()

    @property
    def keys(self) -> frozenset[str]:
        """All of torch's keys in a parameter's state."""
        own = {key for fields in self.state.values() for key in fields.values()}
        return frozenset(own | {STEP} if self.counts else own)

    def __str__(self) -> str:
        return f"{self.torch} ⇄ {self.name}"


def chained(*parts: Expression) -> Expression:
    """The transformations one after the other; one alone as it is, chains among them as their links."""
    if len(parts) == 1:
        return parts[0]
    links: list[Expression] = []
    for part in parts:
        links += part.arguments if part.function == "optax.chain" else (part,)
    return Expression("optax.chain", tuple(links))


def gradient(options: Options, *, decayed: bool = True) -> tuple[Expression, ...]:
    """What torch does to a gradient before anything else: its sign for ``maximize``, then the coupled weight decay."""
    parts: list[Expression] = []
    if options.get("maximize"):
        parts.append(Expression("optax.scale", (-1.0,)))
    if decayed and options.get("weight_decay"):
        parts.append(Expression("optax.add_decayed_weights", (options["weight_decay"],)))
    return tuple(parts)


def decoupled(options: Options) -> tuple[Expression, ...]:
    """Weight decay that does not go through the moments: it stands after them, before the learning rate."""
    return gradient({"weight_decay": options["weight_decay"]})


def rated(options: Options) -> Expression:
    """The learning rate, and the sign of going downhill."""
    return Expression("optax.scale_by_learning_rate", (options["lr"],))


def given(options: Options, **defaults: Any) -> dict[str, Any]:
    """The options that are not optax's default, under optax's names: optax's name=(torch's value, optax's default)."""
    return {name: value for name, (value, default) in defaults.items() if not _equal(value, default)}


def _equal(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(value == default)
