"""Compare the written update of several optimizers with the original's, on the script's batches."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import port
from port.scripts.trained_modules import together
from port.scripts.writing.proof import furthest
from port.scripts.writing.step_proof import StepProof
from port.scripts.writing.turns.order import Turn
from port.scripts.writing.turns.torch_source import TurnSource
from port.scripts.writing.written_module import written_module

Inputs = dict[str, torch.Tensor]


@dataclass
class TorchTurns:
    """The original's update, on copies.

    Attributes:
        turns: the turns, in order.
        sources: the inputs and outputs of each turn's module.
        modules: the turns' modules, which hold the copied models.
        constructors: functions that construct each module again.
        models: the copied models, by name.
        optimizers: the copied optimizers, by name.
        schedulers: the schedulers that step with every update.
        clips: the gradient clipping of each optimizer, by its name.
    """

    turns: Sequence[Turn]
    sources: Sequence[TurnSource]
    modules: Sequence[torch.nn.Module]
    constructors: Sequence[Callable[[], torch.nn.Module]]
    models: Mapping[str, torch.nn.Module]
    optimizers: Mapping[str, torch.optim.Optimizer]
    schedulers: Sequence[Any]
    clips: Mapping[str, Callable[[], object]]

    def update(self, inputs: Sequence[Inputs]) -> tuple[list[float], list[Inputs]]:
        """Make one update of each; returns the losses before them and each turn's inputs, including carried tensors."""
        for optimizer in self.optimizers.values():
            optimizer.zero_grad()
        losses: list[float] = []
        turn_inputs: list[Inputs] = []
        results: list[tuple[torch.Tensor, ...]] = []
        for turn, source, module, its in zip(self.turns, self.sources, self.modules, inputs, strict=True):
            taken = {name: results[number][place].detach() for name, (number, place) in source.takes.items()}
            turn_inputs.append({**its, **taken})
            # A model that is called again must keep its running statistics.
            again = [(one, one.clone()) for name in source.again for one in self.models[name].buffers()]
            result = module(**turn_inputs[-1])
            result = result if isinstance(result, tuple) else (result,)
            results.append(result)
            self._add_gradients(turn, result[: len(source.losses)])
            for buffer, before in again:
                buffer.copy_(before)
            losses += [float(one.detach()) for one in result[: len(source.losses)]]
            for name, _ in turn.updates:
                self.clips[name]()
                self.optimizers[name].step()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a copied optimizer does not know how often it has stepped
            for scheduler in self.schedulers:
                scheduler.step()
        return losses, turn_inputs

    def _add_gradients(self, turn: Turn, losses: Sequence[torch.Tensor]) -> None:
        parameters = [
            one
            for name in turn.trains
            for group in self.optimizers[name].param_groups
            for one in group["params"]
            if one.requires_grad
        ]
        total = torch.stack(list(losses)).sum()
        for parameter, gradient in zip(parameters, torch.autograd.grad(total, parameters), strict=True):
            parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient


def prove_turns(
    torch_side: TorchTurns,
    steps: Sequence[Sequence[Inputs]],
    folder: Path,
    inputs: Sequence[str],
    names: Sequence[str],
    orders: Mapping[str, Sequence[int]],
    mapping: Any,
) -> StepProof:
    """Make the same updates on both sides, in float64 and without dropout, and compare them.

    Args:
        torch_side: the original's update, in float64, in training mode.
        steps: for each step, each turn's inputs that come from no other turn.
        folder: the folder of the written train_step.py.
        inputs: the inputs of train_step.
        names: the names of the losses that it returns, in the order of their turns.
        orders: the inputs' axis orders in JAX.
        mapping: the mapping of all models.
    """
    import jax
    from flax import nnx

    turns = [path.stem for path in folder.glob("turn*.py")]
    with jax.enable_x64(True), written_module(folder, turns) as written:
        turns = written.load(param_dtype="float64")
        for turn in turns:
            for _, one in nnx.iter_modules(turn):
                if isinstance(one, nnx.Dropout):
                    one.rate = 0.0
        models = written.Models(turns)
        graphdefs, state = written.create(turns)
        losses, parts = [], []
        for step in steps:
            of_torch, _ = torch_side.update(step)
            tensors = {name: value for its in step for name, value in its.items()}
            arrays = [tensors[name].numpy().transpose(orders[name]) for name in inputs]
            state, found = written.train_step(graphdefs, state, *arrays)
            parts += list(zip(of_torch, [float(found[name]) for name in names], strict=True))
            losses.append((sum(of_torch), sum(map(float, found.values()))))
        nnx.update(models, state.params, state.rest)
        params = port.to_torch(models, like=together(torch_side.models), rename=mapping)
    weights = furthest(together(torch_side.models).state_dict(), params)
    return StepProof(tuple(losses), weights, parts=tuple(parts))
