"""The written update beside the original's, on the batches that the script was given, in float64, update by update."""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import torch

import port
from port.judging import Status
from port.judging.limits import PROOF_LIMIT, WEIGHTS_LIMIT
from port.weights import largest_difference


@dataclass(frozen=True)
class StepProof:
    """What comparing both sides gave.

    Attributes:
        losses: of each update, PyTorch's and JAX's.
        weights: the largest relative difference of a parameter, or of a running statistic, behind the last update.
        draws: the model draws random numbers that the two sides do not share, so that nothing can be said.
    """

    losses: tuple[tuple[float, float], ...]
    weights: float
    draws: bool = False

    @property
    def loss(self) -> float:
        """The largest relative difference of a loss."""
        return max(abs(a - b) / max(abs(a), 1e-300) for a, b in self.losses)

    @property
    def status(self) -> Status:
        """Whether both train the same."""
        if self.draws:
            return Status.CANNOT_JUDGE
        return Status.AGREE if self.loss <= PROOF_LIMIT and self.weights <= WEIGHTS_LIMIT else Status.DIFFER


@dataclass
class TorchUpdates:
    """The original's update, on copies.

    Attributes:
        module: from a batch to its loss, with the copied models in it.
        optimizer: copied with them.
        schedulers: those that are stepped with every update, in their order.
        clip: what clips the gradients of an update: `torch.nn.utils.clip_grad_norm_` with its arguments, or nothing.
    """

    module: torch.nn.Module
    optimizer: torch.optim.Optimizer
    schedulers: Sequence[Any]
    clip: Any

    def draws(self, batch: dict[str, torch.Tensor]) -> bool:
        """Whether the loss of a batch is another each time it is computed."""
        first, second = (float(copy.deepcopy(self.module)(**batch).detach()) for _ in range(2))
        return first != second

    def update(self, microbatches: Sequence[dict[str, torch.Tensor]], rate: float | None) -> float:
        """One update, at a rate where the script sets it by hand; returns the loss before it."""
        for group in self.optimizer.param_groups if rate is not None else ():
            group["lr"] = rate
        self.optimizer.zero_grad()
        total = 0.0
        for batch in microbatches:
            loss = self.module(**batch)
            loss.backward()
            total += float(loss.detach())
        self.clip()
        self.optimizer.step()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a copied optimizer does not know how often it has stepped
            for scheduler in self.schedulers:
                scheduler.step()
        return total


def prove(
    torch_side: TorchUpdates,
    updates: Sequence[Sequence[dict[str, torch.Tensor]]],
    rates: Sequence[float],
    folder: Path,
    translation: Any,
) -> StepProof:
    """Make the same updates on both sides, in float64 and without dropout (a translation's own proof has that).

    Args:
        torch_side: the original's, in float64, in training, without dropout.
        updates: for each, the batches of its microbatches.
        rates: the learning rate of each, where the script sets it by hand.
        folder: where the written train_step.py and model.py are.
        translation: of the torch side's module.
    """
    import jax
    from flax import nnx

    with jax.enable_x64(True):
        written = _imported(folder)
        draws = torch_side.draws(updates[0][0])
        model = written.load(param_dtype="float64")
        for _, one in nnx.iter_modules(model):
            if isinstance(one, nnx.Dropout):
                one.rate = 0.0
        graphdef, state = written.create(model)
        losses = []
        for number, microbatches in enumerate(updates):
            rate = rates[number : number + 1]
            of_torch = torch_side.update(microbatches, rate[0] if rate else None)
            batches = [translation.to_flax(tuple(batch.values())) for batch in microbatches]
            given = batches[0] if len(batches) == 1 else [np.stack(parts) for parts in zip(*batches, strict=True)]
            state, loss = written.train_step(graphdef, state, *rate, *given)
            losses.append((of_torch, float(loss)))
        model = nnx.merge(graphdef, state.params, state.rest)
        params = port.to_torch(model, like=torch_side.module, rename=translation.mapping)
    return StepProof(tuple(losses), _furthest(torch_side.module.state_dict(), params), draws)


def _furthest(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> float:
    floats = [name for name, tensor in ours.items() if tensor.is_floating_point()]
    a, b = ({name: one[name].detach().double().numpy() for name in floats} for one in (ours, theirs))
    return float(largest_difference(a, b)[1])


def _imported(folder: Path) -> Any:
    """The written train_step.py, which imports the model beside it."""
    before = sys.modules.pop("model", None)
    sys.path.insert(0, str(folder))
    try:
        spec = spec_from_file_location("written_train_step", folder / "train_step.py")
        assert spec is not None and spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop("model", None)
        if before is not None:
            sys.modules["model"] = before
