"""Assembles the optax expression of a whole torch optimizer: its groups, schedules, clipping and accumulation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from collections.abc import Mapping as Named
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from port.errors import UsageError
from port.mapping import FROZEN as FROZEN_VARIABLES
from port.mapping import Mapping
from port.optim import checked
from port.optim.by_hand import ByHand
from port.optim.epochs import updates_since
from port.optim.layout import parameter_entries
from port.optim.reading import FROZEN, ParameterGroup, labels_of, named_groups
from port.optim.together import WithPlateau
from port.pairs.expression import Expression, Function, Reference
from port.pairs.optimizers.optimizer_pair import chained
from port.pairs.schedules import Plateau, factor_of, plateau_of, schedule_of

if TYPE_CHECKING:
    import torch

    Scheduler = torch.optim.lr_scheduler.LRScheduler


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "clip_norm": checked.number,
    "norm_type": checked.order,
    "clip_value": checked.number,
    "accumulate": partial(checked.whole, least=1),
    "accumulate_mean": checked.flag,
    "steps_per_epoch": partial(checked.whole, least=1),
    "steps": partial(checked.whole, least=1),
    "step": partial(checked.whole, least=0),
}


@dataclass(frozen=True)
class Around:
    """Options for what surrounds the optimizer's own step.

    Attributes:
        clip_norm: the maximum norm of torch's clip_grad_norm_.
        norm_type: its kind of norm.
        clip_value: the maximum value of torch's clip_grad_value_.
        accumulate: micro-batches per update.
        accumulate_mean: whether their gradients are averaged; torch sums them.
        steps_per_epoch: updates between two steps of the scheduler; None if it is stepped with every update.
        steps: for how many steps of the scheduler a schedule without a formula is tabulated.
        step: the number of updates since the scheduler was made; None to use the optimizer's count.

    Raises:
        UsageError: an option has a value of the wrong kind.
    """

    clip_norm: float | None = None
    norm_type: float = 2.0
    clip_value: float | None = None
    accumulate: int = 1
    accumulate_mean: bool = False
    steps_per_epoch: int | None = None
    steps: int | None = None
    step: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None or field.default is not None:
                object.__setattr__(self, field.name, _CHECKS[field.name](field.name, value))


@dataclass(frozen=True)
class Assembly:
    """The whole optimizer as an expression, and what to fill its state with.

    Attributes:
        expression: the optax transformation; contains the mapping, if ``in_torch_layout``.
        groups: label → the parameters stepped alike.
        labels: torch's name → label, for every parameter.
        places: label → how many updates the schedule has seen; for labels with a schedule.
        plateaus: label → the state of ReduceLROnPlateau.
        in_torch_layout: whether it works on torch's names and layouts.
    """

    expression: Expression | Function
    groups: dict[str, ParameterGroup]
    labels: dict[str, str]
    places: dict[str, int]
    plateaus: dict[str, Plateau]
    in_torch_layout: bool

    def build(self, mapping: Mapping) -> Any:
        """Build the transformation."""
        built = self.expression.build()
        return built(mapping) if isinstance(self.expression, Function) else built


def assemble(
    groups: Sequence[ParameterGroup],
    mapping: Mapping,
    schedulers: Sequence[Scheduler | WithPlateau | ByHand | None],
    around: Around,
    *,
    prefix: str = "",
    held: Collection[str] = (),
) -> Assembly:
    """Assemble the expression.

    Args:
        groups: the groups of the torch optimizers.
        mapping: from torch's names to the Flax parameters' paths.
        schedulers: torch's schedulers, for each optimizer; see `port.optim.together.together`.
        around: clipping, accumulation, how the scheduler is stepped.
        prefix: the path before the mapping's paths in the tree of parameters.
        held: the mapping's paths that are in the tree. `port.nn.Frozen` variables are there only if requested.

    Raises:
        UsageError: a scheduler that has no counterpart; groups that must be one for LBFGS.
    """
    if any(group.pair.closure for group in groups) and replace(around, steps=None, step=None) != Around():
        raise UsageError(
            "LBFGS evaluates the loss itself, several times per step: there is no gradient to clip or to accumulate, "
            "and no epoch in between; leave those options out"
        )
    entries = [
        entry
        for entry in parameter_entries(mapping)
        if entry.collection != FROZEN_VARIABLES or not set(held).isdisjoint(entry.targets)
    ]
    labels = labels_of(list(groups), [source for entry in entries for source in entry.sources])
    by_label = named_groups(list(groups))
    joined = any(len({labels[name] for name in entry.sources}) > 1 for entry in entries)
    layout = joined or any(group.pair.in_torch_layout for group in groups)
    if layout:
        paths = dict(labels)
    else:
        paths = {prefix + target: labels[entry.sources[0]] for entry in entries for target in entry.targets}

    chains, places, plateaus = {}, {}, {}
    for label, group in by_label.items():
        chains[label], place, plateau = _stepped(group, schedulers[group.optimizer], around)
        if place is not None:
            places[label] = place
        if plateau is not None:
            plateaus[label] = plateau
    whole = _accumulated(_clipped(_partitioned(chains, paths), paths, around), around)
    expression: Expression | Function = whole
    if layout:
        expression = Function(("mapping",), Expression("port.optim.in_torch_layout", (whole, Reference("mapping"))))
    return Assembly(expression, by_label, labels, places, plateaus, layout)


def _stepped(
    group: ParameterGroup, scheduler: Scheduler | WithPlateau | ByHand | None, around: Around
) -> tuple[Expression, int | None, Plateau | None]:
    """A group's chain with its schedule, and the schedule's position."""
    from torch.optim.lr_scheduler import ReduceLROnPlateau

    pair, options = group.pair, dict(group.options)
    if scheduler is None or pair.takes_first_rate:
        return pair.chain(options), None, None
    if isinstance(scheduler, ReduceLROnPlateau | WithPlateau):
        return _on_plateau(group, scheduler, around)
    if isinstance(scheduler, ByHand):
        if around.steps_per_epoch is not None:
            raise UsageError("schedule= is a function of the update: steps_per_epoch is for schedulers, leave it out")
        scheduled = scheduler.scheduled(group.index, steps=around.steps, step=around.step)
    else:
        scheduled = schedule_of(scheduler, group.index, steps=around.steps)
    rate, momentum = (
        _per_epoch(part, around.steps_per_epoch) for part in (scheduled.learning_rate, scheduled.momentum)
    )
    place = scheduled.count if isinstance(scheduler, ByHand) else _place(scheduler, scheduled.count, around)
    if momentum is None and not pair.own_count:
        return pair.chain({**options, "lr": rate}), place, None
    hyperparameters: dict[str, Any] = {"learning_rate": rate}
    options["lr"] = Reference("learning_rate")
    if momentum is not None:
        if pair.schedules_momentum is None:
            raise UsageError(f"{pair.torch} has no momentum for the scheduler to cycle; pass cycle_momentum=False")
        if pair.schedules_momentum == "betas":
            hyperparameters["b1"], options["betas"] = momentum, (Reference("b1"), options["betas"][1])
        else:
            hyperparameters["momentum"], options["momentum"] = momentum, Reference("momentum")
    injected = Expression("optax.inject_hyperparams", (Function(tuple(hyperparameters), pair.chain(options)),))
    return Expression(injected, (), hyperparameters), place, None


def _on_plateau(
    group: ParameterGroup, scheduler: Scheduler | WithPlateau, around: Around
) -> tuple[Expression, int | None, Plateau]:
    """The same with ReduceLROnPlateau, alone or beside another scheduler."""
    inner = Function(("learning_rate",), group.pair.chain({**group.options, "lr": Reference("learning_rate")}))
    if not isinstance(scheduler, WithPlateau):
        plateau = plateau_of(scheduler, group.index)
        inner_and_rate = (inner, plateau.learning_rate)
        return Expression("port.transforms.reduce_on_torch_plateau", inner_and_rate, plateau.options), None, plateau
    plateau, factor = plateau_of(scheduler.plateau, group.index), factor_of(scheduler.scheduler, group.index)
    arguments = (inner, plateau.learning_rate, _per_epoch(factor.learning_rate, around.steps_per_epoch))
    order = {"plateau_first": True} if scheduler.plateau_first else {}
    wrapped = Expression("port.transforms.scheduled_plateau", arguments, {**order, **plateau.options})
    return wrapped, _place(scheduler.scheduler, factor.count, around), plateau


def _per_epoch(schedule: Any, steps_per_epoch: int | None) -> Any:
    if steps_per_epoch is None or not isinstance(schedule, Expression):
        return schedule
    return Expression("port.transforms.per_epoch", (schedule, steps_per_epoch))


def _place(scheduler: Scheduler, count: int, around: Around) -> int:
    return updates_since(scheduler, count, steps_per_epoch=around.steps_per_epoch, step=around.step)


def _partitioned(chains: dict[str, Expression], paths: Named[str, str]) -> Expression:
    frozen = FROZEN in paths.values()
    if len(chains) == 1 and not frozen:
        return next(iter(chains.values()))
    transforms = {**chains, **({FROZEN: Expression("optax.set_to_zero")} if frozen else {})}
    return Expression("optax.partition", (transforms, _labelled(transforms, paths)))


def _labelled(labels: Sequence[str] | Named[str, Any], paths: Named[str, str]) -> Expression:
    named = {label: [path for path, other in paths.items() if other == label] for label in labels}
    return Expression("port.transforms.labels_by_path", (named,))


def _clipped(optimizer: Expression, paths: Named[str, str], around: Around) -> Expression:
    clips: list[Expression] = []
    if around.clip_norm is not None:
        kind = {} if around.norm_type == 2.0 else {"norm_type": around.norm_type}
        clips.append(Expression("port.transforms.clip_by_torch_norm", (around.clip_norm,), kind))
    if around.clip_value is not None:
        clips.append(Expression("optax.clip", (around.clip_value,)))
    if clips and around.clip_norm is not None and FROZEN in paths.values():
        # In torch frozen parameters have no gradient, and do not count in the norm.
        trained = {path: label if label == FROZEN else "trained" for path, label in paths.items()}
        transforms = {"trained": Expression("optax.identity"), FROZEN: Expression("optax.set_to_zero")}
        clips.insert(0, Expression("optax.partition", (transforms, _labelled(transforms, trained))))
    return chained(*clips, optimizer)


def _accumulated(optimizer: Expression, around: Around) -> Expression:
    if around.accumulate == 1:
        return optimizer
    mean = {"mean": True} if around.accumulate_mean else {}
    return Expression("port.transforms.accumulate_torch", (optimizer, around.accumulate), mean)
