"""Converts the optimizer of a training checkpoint, and its scheduler, together with its weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from port.errors import UsageError, WeightsMismatch
from port.mapping import FROZEN, Mapping
from port.optim.checkpoints import state_tensors
from port.optim.from_torch import optax_source, to_optax
from port.optim.held import few
from port.optim.layout import parameter_entries
from port.optim.saved import SavedOptimizer, read_optimizer
from port.optim.saved_scheduler import read_scheduler, scheduler_places
from port.optim.state_dicts import LARGEST
from port.pairs.optimizers import pair_of_optimizer
from port.pairs.schedules import place_of
from port.weights.nesting import nested
from port.weights.tensors import Checkpoint, Tensor

if TYPE_CHECKING:
    import torch


class MovedOptimizer:
    """Called with the mapping of the weights, returns the optimizer's tensors to write beside them.

    Attributes:
        places: the keys of the optimizer and its scheduler in the checkpoint.
        remarks: what the user should check.
        step: the number of updates at the checkpoint.
        source: the transformation as source, once this was called.

    Raises:
        BrokenWeights, UsageError, WeightsMismatch: as for `read_optimizer`, `read_scheduler` and, when called,
            `to_optax`; UsageError also if the scheduler is not stepped with every update, and nothing says how many
            updates there are per step.
    """

    def __init__(
        self,
        checkpoint: Path | Checkpoint,
        optimizer: Any,
        model: torch.nn.Module,
        *,
        key: str | None = None,
        scheduler: Any = None,
        scheduler_key: str | None = None,
        steps_per_epoch: int | None = None,
        step: int | None = None,
        schedule: Callable[[int], float] | None = None,
        steps: int | None = None,
    ) -> None:
        saved = read_optimizer(checkpoint, optimizer, model, key=key)
        path = checkpoint.path if isinstance(checkpoint, Checkpoint) else checkpoint
        self.path, self.optimizer, self.step = path, saved.optimizer, saved.step
        self.places, self.remarks, self.source = [saved.place], _ignored_schedulers(saved), ""
        self.keywords: dict[str, Any] = {}
        if scheduler is not None:
            found = read_scheduler(path, saved.content, scheduler, saved.optimizer, key=scheduler_key)
            self.places.append(found.place)
            self.remarks = []
            if step is None:
                self.remarks = _assumed_steps(path, found.scheduler, saved.step, steps_per_epoch)
                step = _counted(found.scheduler, saved.step, steps_per_epoch)
            self.step = saved.step or step or 0
            self.keywords = {"scheduler": found.scheduler, "steps_per_epoch": steps_per_epoch, "step": step}
        elif schedule is not None:
            self.remarks = []
            self.step = saved.step or step or 0
            self.keywords = {"schedule": schedule, "step": step}
        if steps is not None:
            self.keywords["steps"] = steps
        self.remarks = [*_of_the_pair(saved), *_not_stepped(saved), *self.remarks]

    def __call__(self, mapping: Mapping) -> list[Tensor]:
        with jax.enable_x64(True):  # float64 moments stay float64
            params = self._parameters(mapping)
            try:
                _, state = to_optax(self.optimizer, params=params, mapping=mapping, **self.keywords)
                self.source = optax_source(self.optimizer, params=params, mapping=mapping, **self.keywords)
            except UsageError as error:
                raise UsageError(f"{self.path}: {error}") from error
            except WeightsMismatch as error:
                raise WeightsMismatch(f"{self.path}: {error}") from error
            return state_tensors(state, self.step)

    def _parameters(self, mapping: Mapping) -> Any:
        """Flax parameters with the shapes and dtypes of the weights; their values do not matter.

        As from ``nnx.state(module, nnx.Param)``: without the module's `port.nn.Frozen` variables.
        """
        from port.weights.torch_arrays import numpy_dtype

        dtypes = {
            name: numpy_dtype(parameter.dtype)
            for group in self.optimizer.param_groups
            for name, parameter in zip(group["param_names"], group["params"], strict=True)
        }
        return nested(
            {
                target: jnp.zeros(shape, dtypes.get(entry.sources[0], jnp.float32))
                for entry in parameter_entries(mapping)
                if entry.collection != FROZEN
                for target, shape in zip(entry.targets, entry.target_shapes(), strict=True)
            }
        )


def _of_the_pair(saved: SavedOptimizer) -> list[str]:
    """The pair's remarks about the groups."""
    remark = pair_of_optimizer(saved.optimizer).remark
    said = dict.fromkeys(remark(group) for group in saved.optimizer.param_groups)
    return [f"{saved.place or 'optimizer'}: {each}" for each in said if each is not None]


def _not_stepped(saved: SavedOptimizer) -> list[str]:
    """Which parameters the transformation does not change."""
    place = saved.place or "optimizer"
    remarks = []
    if saved.frozen:
        remarks.append(
            f"{place}: {_parameters(saved.frozen)} with requires_grad=False: frozen in JAX too, no update "
            f"moves {few(saved.frozen)}"
        )
    if saved.never_stepped:
        remarks.append(
            f"{place}: {_parameters(saved.never_stepped)} without state, while others have theirs: torch "
            "has never stepped them (they were frozen in the script, or got no gradient), so they are frozen in "
            f"JAX: no update changes {few(saved.never_stepped)}. torch would start them at step 0 with their first "
            "gradient; for that, call port.to_optax with the optimizer itself, in which they require one"
        )
    return remarks


def _parameters(names: tuple[str, ...]) -> str:
    return f"{len(names)} parameter" + ("" if len(names) == 1 else "s")


def _ignored_schedulers(saved: SavedOptimizer) -> list[str]:
    """A remark that a scheduler's state is in the file, if it was not requested."""
    rates = ", ".join(dict.fromkeys(f"{float(group['lr']):.6g}" for group in saved.optimizer.param_groups))
    return [
        f"{place}: the state of a scheduler, which is not converted: the rate stays at {rates}. Pass its class: "
        f"--scheduler {' or '.join(':'.join(name.rsplit('.', 1)) for name in names) or 'MODULE:NAME'}"
        for place, names in scheduler_places(saved.content).items()
    ]


def _assumed_steps(path: Path, scheduler: Any, updates: int, steps_per_epoch: int | None) -> list[str]:
    """Check that a scheduler does not count epochs where updates are expected; return a remark if unclear."""
    if hasattr(scheduler, "num_bad_epochs"):
        return []
    name, count = type(scheduler).__name__, place_of(scheduler)
    if steps_per_epoch is not None:
        if count * steps_per_epoch > LARGEST:
            raise UsageError(f"{count} steps of {steps_per_epoch} updates are too many: JAX counts up to {LARGEST}")
        if updates == 0 and count > 0:
            return [
                f"nothing in {path} says how many updates there were: assuming the {count * steps_per_epoch} "
                f"of {count} whole epochs; if it was saved within one, pass those since the {name} was made: --step N"
            ]
        return []
    if updates > count + 1:
        every = updates // count if count else "N"
        raise UsageError(
            f"{path}: there were {updates} updates and {count} steps of the {name}, so it is not stepped with every "
            f"update: pass how many updates there are per step, --steps-per-epoch {every}; or 1 if it is"
        )
    if updates == 0 and count > 0:
        return [
            f"nothing in {path} says how many updates there were: assuming that the {name} is stepped with "
            "every update; if it is stepped once per epoch, pass the updates per epoch: --steps-per-epoch N"
        ]
    return []


def _counted(scheduler: Any, updates: int, steps_per_epoch: int | None) -> int | None:
    """The updates since the scheduler was made, if the optimizer itself does not count them."""
    if hasattr(scheduler, "num_bad_epochs") or steps_per_epoch is None or pair_of_optimizer(scheduler.optimizer).counts:
        return None
    return updates or place_of(scheduler) * steps_per_epoch
