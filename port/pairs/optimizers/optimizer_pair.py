"""Optimizer pairs: a torch class, the equivalent optax chain, and the mapping of its state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from port.pairs.expression import Expression
from port.pairs.optimizers.options import Takes

Options = Mapping[str, Any]
"""A parameter group's options under torch's names.

``lr``, ``momentum`` and the first of ``betas`` may be an `Expression` of a schedule, or a `Reference` that
`optax.inject_hyperparams` sets.
"""

STEP = "step"
"""torch's key of the update count, which is equal for all parameters of a chain."""

CHANGE_NOTHING = frozenset({"foreach", "fused", "capturable", "differentiable"})
"""Options of torch's optimizers that affect how an update is computed, not its value."""


def _nothing(options: Options) -> str | None:
    return None


@dataclass(frozen=True)
class OptimizerPair:
    """A torch optimizer and the optax chain with the same updates.

    Attributes:
        torch: torch's class, by its public name; ``"__main__.Lion"`` for a notebook's.
        name: its name in `port.optim.by_name`.
        defaults: the options of a group that affect an update, under torch's names, with torch's defaults.
        chain: the options of a group → the optax transformation, including learning rate and sign.
        state: optax's state class → its field → torch's key in a parameter's state. Fields without a key in torch are
            left out, and keep the values of a fresh state, such as a count that no update reads.
        takes: option → the values it accepts; by default those of its default's type.
        conflict: why accepted options cannot be combined; None if they can.
        ignored: torch's options that do not affect an update.
        scalars: torch's keys with one number per parameter, equal for all parameters updated together.
        scalars_anew: whether torch recomputes them in each step, in its default dtype, whatever their stored dtype.
        flags: optax's fields that are true if torch has the key.
        in_torch_layout: whether an update depends on the layout of a tensor: on which axes are rows, or on how
            parameters are split into tensors. The chain then works on torch's tensors: see `port.optim.layout`.
        schedules_momentum: torch's option that CyclicLR and OneCycleLR change along with the learning rate.
        takes_first_rate: whether the learning rate is read only in a parameter's first step.
        own_count: whether the chain evaluates the schedule at its own update count, not the schedule's.
        rate_in_its_dtype: whether torch computes with a tensor rate in its dtype; other optimizers convert it to a
            number.
        counts: whether torch counts a parameter's steps, under `STEP`.
        whole_count: whether that count is a Python int; torch's own optimizers keep a tensor.
        complex_alike: whether torch updates a complex parameter as complex numbers, not as pairs of real ones.
        closure: whether a step needs the loss as a function, with one memory for all parameters: only LBFGS.
        refused: why there is no chain, and the nearest alternative; None if there is one.
        foreign: why a checkpoint's group with these options belongs to another class; None if it does not.
        remark: what to tell a user who converts a checkpoint's group with these options; None for nothing.
        notes: ids of the relevant notes.
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
    """Chain transformations; a single one is returned unchanged, and nested chains are flattened."""
    if len(parts) == 1:
        return parts[0]
    links: list[Expression] = []
    for part in parts:
        links += part.arguments if part.function == "optax.chain" else (part,)
    return Expression("optax.chain", tuple(links))


def gradient(options: Options, *, decayed: bool = True) -> tuple[Expression, ...]:
    """Return torch's first operations on a gradient: the sign for ``maximize``, then coupled weight decay."""
    parts: list[Expression] = []
    if options.get("maximize"):
        parts.append(Expression("optax.scale", (-1.0,)))
    if decayed and options.get("weight_decay"):
        parts.append(Expression("optax.add_decayed_weights", (options["weight_decay"],)))
    return tuple(parts)


def decoupled(options: Options) -> tuple[Expression, ...]:
    """Return decoupled weight decay: it comes after the moments and before the learning rate."""
    return gradient({"weight_decay": options["weight_decay"]})


def rated(options: Options) -> Expression:
    """Return the scaling by the learning rate, with the sign of descent."""
    return Expression("optax.scale_by_learning_rate", (options["lr"],))


def given(options: Options, **defaults: Any) -> dict[str, Any]:
    """Return options that differ from optax's defaults; arguments: optax's name=(torch's value, optax's default)."""
    return {name: value for name, (value, default) in defaults.items() if not _equal(value, default)}


def _equal(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(value == default)
