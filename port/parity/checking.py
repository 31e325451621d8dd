"""`port.check`: compare a PyTorch and a Flax module, forward and backward, layer by layer."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping as Tree
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from port.errors import UnknownChoice
from port.judging import Status
from port.judging.limits import TIME_LIMIT
from port.mapping import Mapping, Rules, between, rules_of
from port.mapping.folding import folds
from port.mapping.renaming import Renaming, renamed
from port.parity.compare.layer_matching import match_layers
from port.parity.compare.mode import Models
from port.parity.compare.weights import compare_weights, unpaired
from port.parity.comparison import Comparison
from port.parity.options import check_inputs, check_steps, limits_of
from port.parity.report import CheckReport
from port.parity.sides.building import Keywords, check_models, flax_side
from port.parity.sides.calls import is_floating
from port.parity.sides.cotangents import RandomCotangents
from port.parity.sides.duration import announcement, time_limit_of
from port.parity.sides.extent import Budget
from port.parity.sides.inputs import for_flax, inputs_from
from port.parity.sides.layouts import layout_between
from port.parity.sides.parts import parts_of
from port.parity.sides.precision import cpu_precision
from port.parity.sides.torch_side import TorchSide

if TYPE_CHECKING:
    import torch

    from port.parity.sides.torch_side import TorchSide


def check(
    torch_module: torch.nn.Module,
    flax_module: Any,
    inputs: Any,
    *,
    channels_last: bool | None = None,
    flax_inputs: Any = None,
    flax_keywords: Keywords | None = None,
    rename: Tree[str, str] | Rules | Mapping | Path | str | None = None,
    fold: Tree[str, tuple[int, ...]] | None = None,
    weights: Literal["own", "torch"] = "own",
    precision: Literal["float64", "float32"] = "float64",
    rtol: float | None = None,
    atol: float = 0.0,
    steps: int = 3,
    loss: tuple[Callable[[Any], Any], Callable[[Any], Any]] | None = None,
    single_step: bool = True,
    time_limit: float = TIME_LIMIT,
    tell: Callable[[str], Any] | None = None,
) -> CheckReport:
    """Compare a Flax module with a PyTorch one, and find where and why they differ.

    The check compares the weights (bit for bit, through the mapping); the outputs in evaluation and in training mode;
    the gradients of every parameter and floating input, for random cotangents; and the running statistics after some
    steps. Copies of both run in float64 on the CPU, with dropout off; the modules passed in are not changed. Where the
    two differ, the check finds the first layer that differs, forward and backward, and runs each layer alone on torch's
    input. Then it tests explanations; the report's causes are those that make the two sides agree.

    Args:
        torch_module: the reference.
        flax_module: an nnx module, or (Linen module, variables).
        inputs: torch's inputs: one tensor or array, a tuple of positional arguments, or a dict of keyword arguments.
        channels_last: whether spatial inputs are moved to channels last for Flax. By default, inputs are moved that
            have the rank and the number of channels of the first spatial layer's input.
        flax_inputs: Flax's inputs, if they are not torch's in another layout.
        flax_keywords: keywords of the Flax model's call in evaluation and in training; by default ``train=…``,
            ``deterministic=…`` and similar ones, if it takes them.
        rename: how names differ, see `port.mapping.between`; or the mapping.
        fold: a linear layer's path → (channels, height, width) of the features that are flattened before it.
        weights: "own": each side keeps its weights, which are compared first; "torch": the Flax copy gets torch's.
        precision: float64 is the proof; float32 does not show faults below 1e-4.
        rtol: relative limit of outputs; that of gradients is ten times as large. By default those of
            `port.judging.limits`, 1e-10 and 1e-9 (float32: 1e-4 and 1e-3). If the Flax model computes in float32 in
            between, as `jax.nn.dot_product_attention` does, 1e-6 can be met.
        atol: absolute differences below this count as equal.
        steps: forward passes in training mode before the running statistics are compared.
        loss: a loss of torch's output, and the same of Flax's; the gradients of the losses are then compared.
        single_step: whether to run each layer alone where the two differ.
        time_limit: seconds that the check may take, by an estimate made before it runs. If it would take longer, or
            does not fit into memory, the check uses a smaller batch (unless a loss or Flax's inputs are passed), or
            takes the gradients in parts, or leaves them out, or does not run. The report says which.
        tell: called before a long check with the estimated time.

    Returns:
        A report that is true if the two agree, and prints its verdict.

    Raises:
        UsageError: a model does not take its inputs (the message names the side and quotes its error); or a limit, the
            number of steps, the batch or a model is invalid.
        WeightsMismatch: the two models' tensors cannot be matched; one message lists all of them.
        NoPair: a lazy layer has not been run.
    """
    limits = limits_of(precision, rtol, atol)
    if weights not in ("own", "torch"):
        raise UnknownChoice("weights", weights, ("own", "torch"))
    check_steps(steps)
    time_limit = time_limit_of(time_limit)
    check_models(torch_module, flax_module)
    rules, fold = rules_of(rename), folds(fold)
    renaming = Renaming({} if isinstance(rules, Mapping) else rules.rename)
    with cpu_precision(precision == "float64"):
        side = TorchSide(torch_module, precision)
        torch_inputs = inputs_from(inputs, precision)
        check_inputs(torch_inputs)
        extent = Budget(steps, time_limit).extent(
            torch_inputs, side.cost, may_shrink=loss is None and flax_inputs is None
        )
        if extent.refused:
            return CheckReport(Status.CANNOT_JUDGE, (), (), {}, precision=precision, unjudged=(extent.refused,))
        if tell is not None and (said := announcement(extent.seconds)):
            tell(said)
        torch_inputs = extent.inputs
        drawn, losses = RandomCotangents(), loss or (None, None)
        # For gradients in parts, it must be known first which parameters belong together.
        evaluated = side.run(torch_inputs, drawn if extent.parts == 1 else None, training=False, loss=losses[0])
        layout = layout_between(side, evaluated, torch_inputs, channels_last)
        theirs = for_flax(torch_inputs, layout) if flax_inputs is None else inputs_from(flax_inputs, precision)
        flax = flax_side(flax_module, precision, theirs, flax_keywords)
        mapping = between(side.guide, flax.guide, rename=rules, fold=fold, spare=True)
        findings = [] if isinstance(rules, Mapping) else unpaired(mapping, side.guide, flax.guide)
        if weights == "own":
            findings += compare_weights(mapping, side.weights, flax.weights, side.guide.tied)
        else:
            _carry(mapping, side, flax, precision)
        guide = renamed(side.guide, renaming)
        matched = match_layers(guide, flax.guide, mapping)
        unfit = extent.without_gradients
        models = Models(side, flax, mapping, matched, torch_inputs, theirs, layout, limits, losses, single_step, unfit)
        remarks = [*extent.remarks, *renaming.idle(side.guide.leaves)]
        if extent.parts > 1:
            models = replace(models, parts=parts_of(mapping.entries, side.parameter_sizes, extent.parts))
            remarks.append(extent.said_of_parts(len(models.parts)))
            evaluated = models.torch_run(drawn, training=False, part=models.parts[0])
        comparison = Comparison(models, drawn, findings, steps, remarks)
        comparison.run(evaluated)
        return comparison.report(weights_compared=weights == "own")


def _carry(mapping: Mapping, side: TorchSide, flax: Any, precision: str) -> None:
    """Fill Flax's copy with torch's weights."""
    import jax.numpy as jnp

    # Widen first: a sum of torch's two biases is then not rounded.
    wide = {name: array.astype(precision) if is_floating(array) else array for name, array in side.weights.items()}
    carried = mapping(wide)
    for path in flax.variables:
        if path in carried:
            array = carried[path]
            flax.variables[path] = jnp.array(array, precision if is_floating(array) else array.dtype)
