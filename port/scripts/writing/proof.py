"""Compare the written update with the original's on the script's batches, in float64, update by update."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import port
from port.errors import UsageError
from port.judging import Status
from port.judging.limits import CONTROL_RUNS, CONTROL_UNITS
from port.random import dropout_key, fold_in, shared_dropout
from port.scripts.own_draws import DROPOUT_SEED
from port.scripts.writing.replaying import copied, draws
from port.scripts.writing.step_proof import StepProof, Strayed, apart
from port.scripts.writing.written_module import written_module
from port.weights import largest_difference
from port.weights.torch import move_last_places


@dataclass
class TorchUpdates:
    """The original's update, on copies.

    Attributes:
        module: computes a batch's loss, with the copied models in it.
        optimizer: copied with them.
        schedulers: the schedulers stepped with every update, in order.
        clip: clips an update's gradients: `torch.nn.utils.clip_grad_norm_` with its arguments, or nothing.
        layouts: the layouts of the module's draws, which JAX draws from the same keys; None if it draws nothing but
            dropout, which is switched off.
        left: the states that the last update carries to the next one.
        closure: whether the optimizer evaluates the loss itself.
    """

    module: torch.nn.Module
    optimizer: torch.optim.Optimizer
    schedulers: Sequence[Any]
    clip: Any
    layouts: Sequence[Any] | None = None
    left: Sequence[torch.Tensor] = ()
    closure: bool = False

    def why_unshared(self, batch: dict[str, torch.Tensor]) -> str:
        """Why its draws cannot be shared with JAX; empty if they can."""
        side = replace(self, module=copy.deepcopy(self.module))
        try:
            with side._drawing(0, 0):
                side.module(**batch)
        except UsageError as error:
            return str(error)
        return ""

    def _drawing(self, number: int, microbatch: int | None) -> AbstractContextManager[object]:
        """The context of a loss: it draws from its update's key, and its microbatch's."""
        if self.layouts is None:
            return nullcontext()
        key = dropout_key(DROPOUT_SEED, number, x64=True)
        key = key if microbatch is None else fold_in(key, microbatch)
        return shared_dropout(self.module, key, x64=True, layouts=self.layouts)

    def update(self, number: int, microbatches: Sequence[dict[str, torch.Tensor]], rate: float | None) -> float:
        """Make update ``number``, at ``rate`` if the script sets it by hand; returns the loss before it."""
        for group in self.optimizer.param_groups if rate is not None else ():
            group["lr"] = rate
        if self.closure:
            return float(self.optimizer.step(lambda: self._evaluated(microbatches[0])))
        self.optimizer.zero_grad()
        total = 0.0
        for place, batch in enumerate(microbatches):
            with self._drawing(number, place if len(microbatches) > 1 else None):
                result = self.module(**batch)
            loss, *self.left = result if isinstance(result, tuple) else (result,)
            loss.backward()
            total += float(loss.detach())
        self.clip()
        self.optimizer.step()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a copied optimizer does not know how often it has stepped
            for scheduler in self.schedulers:
                scheduler.step()
        return total

    def made(
        self,
        updates: Sequence[Sequence[dict[str, torch.Tensor]]],
        rates: Sequence[float],
        states: Sequence[str],
        goes_on: Sequence[bool],
    ) -> list[float]:
        """Make updates in order; returns the loss before each. The arguments are those of `prove`."""
        losses = []
        for number, microbatches in enumerate(updates):
            if states and goes_on[number]:
                kept = {name: one.detach() for name, one in zip(states, self.left, strict=True)}
                microbatches = [{**batch, **kept} for batch in microbatches]
            losses.append(self.update(number, microbatches, rates[number] if rates else None))
        return losses

    def _evaluated(self, batch: dict[str, torch.Tensor]) -> float:
        """Evaluate the loss, as the script's closure does."""
        self.optimizer.zero_grad()
        loss = self.module(**batch)
        loss.backward()
        return float(loss.detach())


def prove(
    torch_side: TorchUpdates,
    updates: Sequence[Sequence[dict[str, torch.Tensor]]],
    rates: Sequence[float],
    folder: Path,
    translation: Any,
    *,
    states: Sequence[str] = (),
    goes_on: Sequence[bool] = (),
) -> StepProof:
    """Make the same updates on both sides and compare them, in float64; without dropout, or with the same draws.

    Args:
        torch_side: the original's update, in float64, in training mode, without dropout.
        updates: for each update, its microbatches.
        rates: the learning rate of each, if the script sets it by hand.
        folder: the folder of the written train_step.py and model.py.
        translation: the translation of the torch side's module.
        states: its last inputs, which each update carries to the next one.
        goes_on: for each update, whether it takes these states.
    """
    import jax
    from flax import nnx

    with jax.enable_x64(True), written_module(folder, ["model"]) as written:
        why = torch_side.why_unshared(updates[0][0]) if torch_side.layouts is not None else ""
        if why:
            torch_side = replace(torch_side, layouts=None)
        shared = torch_side.layouts is not None
        if not shared and draws(torch_side.module, updates[0][0]):
            why = why or "it does not draw them with torch's functions"
        else:
            why = ""
        model = written.load(param_dtype="float64")
        for _, one in nnx.iter_modules(model):
            if isinstance(one, nnx.Dropout) and not shared:
                one.rate = 0.0
        graphdef, state = written.create(model)
        kept = copied(torch_side)
        of_torch = torch_side.made(updates, rates, states, goes_on)
        losses = []
        left: Sequence[Any] = ()
        for number, microbatches in enumerate(updates):
            batches = [translation.to_flax(tuple(batch.values())) for batch in microbatches]
            inputs = batches[0] if len(batches) == 1 else [np.stack(parts) for parts in zip(*batches, strict=True)]
            if states and goes_on[number]:
                inputs = [*inputs[: -len(states)], *left]
            masks = {"masks": masks_of(number, len(batches))} if shared else {}
            state, loss, *more = written.train_step(graphdef, state, *rates[number : number + 1], *inputs, **masks)
            left = more[0] if more else ()
            losses.append(float(loss))
        model = nnx.merge(graphdef, state.params, state.rest)
        params = port.to_torch(model, like=torch_side.module, rename=translation.mapping)
    weights = torch_side.module.state_dict()
    proof = StepProof(tuple(zip(of_torch, losses, strict=True)), furthest(weights, params), why, shared)
    if proof.status is not Status.DIFFER:
        return proof

    def strayed(seed: int) -> Strayed:
        side = copied(kept)
        move_last_places(side.module, seed, units=CONTROL_UNITS)
        again = side.made(updates, rates, states, goes_on)
        far = furthest(weights, side.module.state_dict())
        return Strayed(tuple(apart(list(zip(of_torch, again, strict=True)))), far)

    return replace(proof, controls=tuple(strayed(seed) for seed in range(1, CONTROL_RUNS + 1)))


def masks_of(number: int, microbatches: int) -> Any:
    """The key of an update's draws, or its microbatches' keys."""
    import jax

    key = jax.random.fold_in(jax.random.key(DROPOUT_SEED), number)
    if microbatches == 1:
        return key
    return jax.vmap(lambda place: jax.random.fold_in(key, place))(jax.numpy.arange(microbatches))


def furthest(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> float:
    """The largest relative difference of a parameter or a running statistic."""
    floats = [name for name, tensor in ours.items() if tensor.is_floating_point()]
    a, b = ({name: one[name].detach().double().numpy() for name in floats} for one in (ours, theirs))
    return float(largest_difference(a, b)[1])
