"""Normalisation with other options, other statistics, or a missing part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import torch

from port.parity.diagnose.causes.operation import Arguments, Explanation, TorchOperation, Way, do, having

_NORMS = ("layer_norm", "group_norm", "instance_norm", "batch_norm", "rms_norm")
_EPSILONS = (1e-3, 1e-5, 1e-6, 1e-7, 1e-8, 1e-12, 0.0)


def epsilon(operation: TorchOperation) -> Iterator[Way]:
    """Another epsilon: Flax's default is 1e-6."""
    if operation.name not in _NORMS:
        return
    own = operation.arguments.get("eps", None if operation.name == "rms_norm" else 1e-5)
    if own is None and torch.is_tensor(operation.input):
        own = torch.finfo(operation.input.dtype).eps  # RMSNorm's default
    flaxs = getattr(operation.twin, "epsilon", getattr(operation.twin, "eps", None))
    candidates = dict.fromkeys([*([flaxs] if isinstance(flaxs, float) else []), *_EPSILONS])
    if isinstance(own, float):
        for other in candidates:
            if other != own:
                why = f"epsilon is {own:g} in torch and {other:g} in Flax"
                yield Way("epsilon", why, having(eps=other), f"Give Flax's layer epsilon={own:g}.")


def running_statistics(operation: TorchOperation) -> Iterator[Way]:
    """BatchNorm with the batch's statistics instead of the running ones, or vice versa."""
    if operation.name != "batch_norm":
        return
    arguments = operation.arguments
    mean, variance = arguments.get("running_mean"), arguments.get("running_var")
    if arguments.get("training"):
        if mean is not None:
            why = "Flax takes the running statistics in training mode, torch the batch's"
            remedy = "Call BatchNorm with use_running_average=False in training: train() sets it."
            yield Way("batch-statistics-not-used", why, having(training=False), remedy=remedy)
        return
    why = "Flax takes the batch's statistics in evaluation, torch the running ones"
    remedy = "Call BatchNorm with use_running_average=True in evaluation: eval() sets it."
    run = having(training=True, running_mean=None, running_var=None)
    yield Way("running-statistics-not-used", why, run, remedy=remedy)
    if mean is not None and variance is not None:
        why = "Flax has the running statistics that a new layer has, mean 0 and variance 1"
        run = having(running_mean=torch.zeros_like(mean), running_var=torch.ones_like(variance))
        remedy = "Load the running statistics too: port.load does."
        yield Way("running-statistics-not-loaded", why, run, remedy=remedy)


def scale_and_bias(operation: TorchOperation) -> Iterator[Way]:
    """A missing scale or bias, or 1 + the scale."""
    if operation.name not in _NORMS:
        return
    weight, bias = operation.arguments.get("weight"), operation.arguments.get("bias")
    if weight is not None:
        why, remedy = "Flax's norm does not multiply by its scale", "Give Flax's layer use_scale=True."
        yield Way("norm-scale-missing", why, having(weight=None), remedy=remedy)
        why, remedy = "Flax's norm multiplies by 1 + its scale", "Multiply by the scale itself."
        yield Way("norm-scale-plus-one", why, having(weight=1 + weight), remedy=remedy)
    if bias is not None:
        why, remedy = "Flax's norm does not add its bias", "Give Flax's layer use_bias=True."
        yield Way("bias-missing", why, having(bias=None), remedy=remedy)


def moments(operation: TorchOperation) -> Iterator[Way]:
    """LayerNorm and RMSNorm with the other's mean, the unbiased variance, or epsilon outside the root."""
    if operation.name not in ("layer_norm", "rms_norm"):
        return
    subtracts = operation.name == "layer_norm"
    if subtracts:
        why, remedy = "Flax's norm does not subtract the mean: it is an RMSNorm", "Call nnx.LayerNorm."
        yield Way("mean-not-subtracted", why, _normalised(subtracts=False), remedy=remedy)
        why = "Flax's norm takes the unbiased variance, torch's the biased one"
        yield Way("unbiased-variance", why, _normalised(subtracts=True, correction=1), "Call var with ddof=0.")
    else:
        why, remedy = "Flax's norm subtracts the mean: it is a LayerNorm", "Call nnx.RMSNorm."
        yield Way("mean-subtracted", why, _normalised(subtracts=True), remedy=remedy)
    why = "Flax's norm adds epsilon to the deviation, torch's to the variance"
    run = _normalised(subtracts=subtracts, outside=True)
    yield Way("epsilon-outside-root", why, run, "Divide by sqrt(variance + epsilon).")


def groups(operation: TorchOperation) -> Iterator[Way]:
    """GroupNorm with another number of groups."""
    if operation.name != "group_norm" or not torch.is_tensor(operation.input):
        return
    own, channels = operation.arguments.get("num_groups"), operation.input.shape[1]
    for other in range(1, channels + 1):
        if channels % other == 0 and other != own:
            why = f"num_groups is {own} in torch and {other} in Flax"
            yield Way("number-of-groups", why, having(num_groups=other), remedy=f"Give Flax's layer num_groups={own}.")


def _normalised(*, subtracts: bool, correction: int = 0, outside: bool = False) -> Callable[[Any, Arguments], Any]:
    def run(function: Any, arguments: Arguments) -> Any:
        x, shape = arguments["input"], tuple(arguments["normalized_shape"])
        axes = tuple(range(-len(shape), 0))
        eps = arguments.get("eps")
        eps = torch.finfo(x.dtype).eps if eps is None else eps
        centred = x - x.mean(axes, keepdim=True) if subtracts else x
        variance = centred.square().sum(axes, keepdim=True) / (prod(shape) - correction)
        centred = centred / (variance.sqrt() + eps if outside else (variance + eps).sqrt())
        weight, bias = arguments.get("weight"), arguments.get("bias")
        centred = centred if weight is None else centred * weight
        return centred if bias is None else centred + bias

    return run


def deviation(operation: TorchOperation) -> Iterator[Way]:
    """var and std with the other divisor: torch's is n − 1, jax's n."""
    if operation.name in ("var", "std") and operation.arguments.get("correction", 1) == 1:
        why = f"jnp.{operation.name} divides by n, torch's by n − 1"

        def biased(function: Any, arguments: Arguments) -> Any:
            kept = {key: value for key, value in arguments.items() if key != "unbiased"}
            return do(function, {**kept, "correction": 0})

        yield Way("biased-variance", why, biased)


EXPLANATIONS: tuple[Explanation, ...] = (epsilon, running_statistics, scale_and_bias, moments, groups, deviation)
