"""Repeat a script's updates on copies of its models: first unchanged, then in float64."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn.modules import dropout

from port.errors import UsageError
from port.parity.sides.precision import default_dtype
from port.scripts.events import Event
from port.scripts.ranks import ProcessRank
from port.scripts.writing.lower_precision import in_precision

T = TypeVar("T")
LIMIT = 1e-4
"""The relative tolerance between a recomputed float32 loss and the observed one."""
LOW_LIMIT = 2e-2
"""The same, for a loss that autocast computes in a lower precision."""
SAME = 1e-9
"""The relative tolerance between two losses in float64."""


def is_replayed(loss: float, observed: float, *, limit: float = LIMIT) -> bool:
    """Whether a recomputed loss equals the script's."""
    return abs(loss - observed) <= limit * max(1.0, abs(observed))


def copied(thing: T) -> T:
    """A deep copy, which may include models and their optimizers, copied together."""
    memo: dict[int, object] = {}
    found = copy.deepcopy(thing, memo)
    for one in list(memo.values()):
        if isinstance(one, torch.optim.LBFGS):  # deepcopy keeps only what torch pickles
            one._params, one._numel_cache = one.param_groups[0]["params"], None
    return found


def put_into_float64(modules: Iterable[nn.Module], optimizers: Iterable[torch.optim.Optimizer]) -> None:
    """Cast models and their optimizers' states to float64."""
    for module in modules:
        module.double()
    for optimizer in optimizers:
        for state in optimizer.state.values():
            state.update({name: doubled(v) for name, v in state.items() if isinstance(v, torch.Tensor)})


def all_doubled(batch: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A batch with its floating-point parts cast to float64."""
    return {name: doubled(tensor) for name, tensor in batch.items()}


def doubled(tensor: torch.Tensor) -> torch.Tensor:
    """Cast a floating-point tensor to float64; return any other unchanged."""
    return tensor.double() if tensor.is_floating_point() else tensor


def dropouts_in(module: nn.Module) -> Iterator[dropout._DropoutNd]:
    """Its dropout layers with a non-zero rate."""
    return (one for one in module.modules() if isinstance(one, dropout._DropoutNd) and one.p)


def switch_dropout_off(module: nn.Module) -> None:
    """Switch off dropout in all layers."""
    for one in dropouts_in(module):
        one.p = 0.0


def draws(module: nn.Module, batch: dict[str, torch.Tensor]) -> bool:
    """Whether a batch's loss differs each time it is computed."""
    first, second = (loss_in(copy.deepcopy(module)(**batch)) for _ in range(2))
    return first != second


def loss_in(result: Any) -> float:
    """The loss among the outputs of the module that computes it."""
    return float((result[0] if isinstance(result, tuple) else result).detach())


def draws_besides_dropout(module: nn.Module, batch: dict[str, torch.Tensor]) -> bool:
    """Whether it draws anything besides dropout."""
    module = copy.deepcopy(module)
    switch_dropout_off(module)
    return draws(module, batch)


def check_replayed(
    module: nn.Module, example: Mapping[str, torch.Tensor], observed: float, precision: Event | None
) -> None:
    """Check that the written path gives the script's loss; if a model draws, two runs differ anyway.

    Raises:
        UsageError: it gives another loss.
    """
    with in_precision(precision):
        first, second = (loss_in(copy.deepcopy(module)(**example)) for _ in range(2))
    if first == second and not is_replayed(first, observed, limit=LIMIT if precision is None else LOW_LIMIT):
        count = ProcessRank.of_this_process().size
        of = f"the mean of its {count} processes'" if count > 1 else "the script's"
        why = ": is it a sum, or a mean over something else than examples?" if count > 1 else ""
        raise UsageError(f"the path that was seen gives the loss {first:.6g}, and {of} was {observed:.6g}{why}")


def check_is_mean_of_parts(
    module: nn.Module, whole: Mapping[str, torch.Tensor], parts: Sequence[Mapping[str, torch.Tensor]]
) -> None:
    """Check that the global batch's loss is the mean of the processes' losses, whose gradient DDP uses.

    It is computed in float64, without dropout, and with SyncBatchNorm's statistics, those of the global batch.

    Args:
        module: computes a batch's loss.
        whole: the global batch.
        parts: each process's part.

    Raises:
        UsageError: it is not, or that cannot be decided.
    """
    if len(parts) < 2:
        return
    module = copy.deepcopy(module).double()
    switch_dropout_off(module)
    for one in module.modules():
        if type(one) is nn.SyncBatchNorm:
            one.eval()
    with default_dtype("float64"):
        is_random = draws(module, all_doubled(whole))
    if is_random:
        raise UsageError(
            "the model draws besides dropout, in each process by itself: whether the whole batch's loss is the mean of "
            "the processes' losses cannot be told; draw what it needs in the loop, and give it to the model"
        )
    with default_dtype("float64"):
        of_whole, *of_parts = (loss_in(copy.deepcopy(module)(**all_doubled(one))) for one in (whole, *parts))
    mean = sum(of_parts) / len(of_parts)
    if not is_replayed(of_whole, mean, limit=SAME):
        raise UsageError(
            f"the loss of the whole batch is {of_whole:.6g}, and the mean of the {len(parts)} processes' losses, of "
            f"which DistributedDataParallel takes the gradient, is {mean:.6g}: is it a sum, or a mean over something "
            "else than examples?"
        )
