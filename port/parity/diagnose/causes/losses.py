"""Losses averaged over another number, or optax losses with similar names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.nn import functional as F

from port.parity.diagnose.causes.operation import Arguments, Explanation, TorchOperation, Way, do, having, then

_OF_LABELS = ("cross_entropy", "nll_loss")
_AVERAGED = (*_OF_LABELS, "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy_with_logits")


def labels(operation: TorchOperation) -> Iterator[Way]:
    """A mean over all samples, where torch's skips ignored labels or is weighted."""
    if operation.name not in _OF_LABELS or operation.arguments.get("reduction", "mean") != "mean":
        return
    target, weight = operation.arguments.get("target"), operation.arguments.get("weight")
    if torch.is_tensor(target) and bool((target == operation.arguments.get("ignore_index", -100)).any()):
        why = "Flax's mean counts the ignored labels, torch's leaves them out"
        yield Way("ignored-labels-counted", why, _mean_over_all)
    if weight is not None:
        why = "Flax divides the weighted losses by their number, torch by the sum of their weights"
        yield Way("class-weights-not-in-mean", why, _mean_over_all)
        why, remedy = "Flax's loss does not weight the classes", "Give the loss torch's class weights."
        yield Way("class-weights-missing", why, having(weight=None), remedy)
    if operation.arguments.get("label_smoothing"):
        why, remedy = "Flax's loss does not smooth the labels", "Smooth the labels: optax.smooth_labels."
        yield Way("label-smoothing-missing", why, having(label_smoothing=0.0), remedy)


def _mean_over_all(function: Any, arguments: Arguments) -> Any:
    return do(function, {**arguments, "reduction": "sum"}) / arguments["target"].numel()


def likes(operation: TorchOperation) -> Iterator[Way]:
    """optax's l2_loss instead of the mean of squares, or huber_loss instead of smooth_l1_loss."""
    if operation.name == "mse_loss":
        why = "Flax's loss is half of torch's, as optax.l2_loss is"
        yield Way("half-squared-error", why, then(lambda loss: loss / 2))
    if operation.name == "smooth_l1_loss":
        why = "Flax takes Huber's loss, which is beta times torch's smooth_l1_loss"
        yield Way("huber-for-smooth-l1", why, _huber)


def _huber(function: Any, arguments: Arguments) -> Any:
    kept = {name: arguments[name] for name in ("input", "target", "reduction") if name in arguments}
    return F.huber_loss(**kept, delta=arguments.get("beta", 1.0))


def reduction(operation: TorchOperation) -> Iterator[Way]:
    """A sum instead of a mean, or vice versa."""
    own = operation.arguments.get("reduction", "mean")
    if operation.name in _AVERAGED and own in ("mean", "sum"):
        other = "sum" if own == "mean" else "mean"
        why = f"torch's loss is the {own} over the samples, Flax's the {other}"
        yield Way("mean-or-sum", why, having(reduction=other), f"Take the {own}.")


EXPLANATIONS: tuple[Explanation, ...] = (labels, likes, reduction)
