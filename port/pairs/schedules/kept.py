"""What a torch scheduler's state dict holds. It names no class: its keys tell whose it is."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from port.pairs.pair import is_class

_COMMON = frozenset(
    {"base_lrs", "last_epoch", "verbose", "_step_count", "_last_lr", "_get_lr_called_within_step", "_is_initial"}
)
_NO_FUNCTIONS = "it holds none of the functions that the scheduler was given"
_NO_CLASSES = "it does not say the classes of the schedulers that are held"


@dataclass(frozen=True)
class Kept:
    """A class of scheduler and the keys of its state dict.

    Attributes:
        torch: torch's class, by its public name.
        keys: what it has and the base class has not.
        optional: what it has under some options, or in some versions of torch.
        lacks: why a scheduler cannot be made of its state dict; None if it can.
    """

    torch: str
    keys: frozenset[str]
    optional: frozenset[str] = frozenset()
    lacks: str | None = None

    @property
    def name(self) -> str:
        """The class's own name."""
        return self.torch.rpartition(".")[2]

    def lacking(self, state: Mapping[str, Any]) -> str | None:
        """What keeps a scheduler of this class from being made of a state dict; None if nothing does."""
        return _NO_FUNCTIONS if state.get("_scale_fn_custom") is not None else self.lacks

    def missing(self, keys: Collection[str]) -> list[str]:
        """What a state dict of these keys lacks for this class."""
        return sorted(self.keys - set(keys))

    def strange(self, keys: Collection[str]) -> list[str]:
        """What this class does not keep."""
        return sorted(set(map(str, keys)) - self.keys - self.optional - _COMMON)


def _kept(name: str, keys: str, optional: str = "", lacks: str | None = None) -> Kept:
    return Kept(f"torch.optim.{name}", frozenset(keys.split()), frozenset(optional.split()), lacks)


KEPT = (
    _kept("lr_scheduler.StepLR", "step_size gamma"),
    _kept("lr_scheduler.MultiStepLR", "milestones gamma"),
    _kept("lr_scheduler.ConstantLR", "factor total_iters"),
    _kept("lr_scheduler.LinearLR", "start_factor end_factor total_iters"),
    _kept("lr_scheduler.ExponentialLR", "gamma"),
    _kept("lr_scheduler.PolynomialLR", "total_iters power"),
    _kept("lr_scheduler.CosineAnnealingLR", "T_max eta_min"),
    _kept("lr_scheduler.CosineAnnealingWarmRestarts", "T_0 T_i T_mult T_cur eta_min"),
    _kept(
        "lr_scheduler.CyclicLR",
        "max_lrs total_size step_ratio mode gamma scale_mode cycle_momentum _scale_fn_custom",
        "use_beta1 base_momentums max_momentums",
    ),
    _kept("lr_scheduler.OneCycleLR", "total_steps _schedule_phases _anneal_func_type cycle_momentum", "use_beta1"),
    _kept("swa_utils.SWALR", "anneal_epochs _anneal_strategy"),
    _kept(
        "lr_scheduler.ReduceLROnPlateau",
        "factor min_lrs patience cooldown eps mode threshold threshold_mode best num_bad_epochs cooldown_counter",
        "default_min_lr mode_worse",
    ),
    _kept("lr_scheduler.LambdaLR", "lr_lambdas", lacks=_NO_FUNCTIONS),
    _kept("lr_scheduler.MultiplicativeLR", "lr_lambdas", lacks=_NO_FUNCTIONS),
    _kept("lr_scheduler.SequentialLR", "_schedulers _milestones", lacks=_NO_CLASSES),
    _kept("lr_scheduler.ChainedScheduler", "_schedulers", lacks=_NO_CLASSES),
)


def kept_by(cls: type) -> Kept | None:
    """What a class of torch's keeps; None of any other class."""
    return next((kept for kept in KEPT if is_class(cls, kept.torch)), None)


def classes_that_keep(keys: Collection[str]) -> list[Kept]:
    """The classes whose state dict has these keys."""
    return [kept for kept in KEPT if not kept.missing(keys) and not kept.strange(keys)]
