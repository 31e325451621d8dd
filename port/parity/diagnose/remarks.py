"""Hints and remarks of a report: likely causes, and what was not compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from port.mapping import FROZEN
from port.mapping.flatten import suspects
from port.parity.compare.findings import Finding, Parting
from port.parity.compare.mode import Models
from port.parity.compare.mode_result import ModeResult
from port.parity.diagnose.causes.cause import Cause
from port.parity.diagnose.causes.target import target_of
from port.parity.diagnose.causes.unexplained import seen_there
from port.parity.diagnose.hints import hints_between, hints_of, hints_of_weights
from port.parity.diagnose.rounding import narrow_layers
from port.parity.sides.calls import RecordedCall

SHOWN = 6
"""The most parameters that are named."""
LEAST_VALUES = 16
"""With fewer values per channel, BatchNorm in training mode is ill-conditioned: rounding differences grow."""


def all_hints(
    models: Models,
    results: dict[str, ModeResult],
    findings: list[Finding],
    partings: list[Parting],
    causes: Sequence[Cause],
) -> list[str]:
    """Return hints on layers whose cause was not found, the likeliest first; none if nothing differs."""
    if not findings:
        return []
    hints = []
    explained = {cause.layer for cause in causes}
    unexplained = [parting for parting in partings if parting.layer not in explained]
    for parting in unexplained:
        result = results[parting.mode]
        hints += hints_of(models.torch.modules.get(parting.layer), result.flax_layers.get(parting.path))
        match = models.matched.get(parting.layer)
        if match is not None and match.pair is not None:
            hints += match.torch.lacks(match.pair)
        if parting.itself is not True:
            hints += hints_between(_unmatched_before(models, result, parting))
        hints += _of_order(models, result)
        if parting.direction == "forward":
            hints += seen_there(target_of(models, result, parting))
    for finding in findings:
        if finding.what == "buffers":
            for path, match in models.matched.items():
                if path not in explained and any(
                    key in finding.where for entry in match.entries for key in entry.sources
                ):
                    layer = results["training"].flax_layers.get(match.flax.path)
                    hints += hints_of(models.torch.modules.get(match.torch.path), layer)
    if any(parting.direction == "forward" for parting in unexplained):
        hints += [str(suspect) for suspect in suspects(models.mapping.entries, models.torch.guide)]
    hints += hints_of_weights(findings, behaviour_differs=bool(partings))
    return list(dict.fromkeys(hints))


def remarks_of(models: Models, results: dict[str, ModeResult], *, random: tuple[str, ...]) -> list[str]:
    """Return what was changed for the comparison, and what was not compared."""
    remarks = []
    zeros = list(dict.fromkeys(where for result in results.values() for where in result.zeros))
    if zeros:
        shown = ", ".join(zeros[:SHOWN]) + (f" and {len(zeros) - SHOWN} more" if len(zeros) > SHOWN else "")
        remarks.append(f"zero but for rounding, as a torch run with random rounding shows: {shown}")
    for mode, result in results.items():
        if result.no_gradient and not models.unfit:
            remarks.append(f"gradients in {mode} were not compared, since torch has none: {result.no_gradient}")
    remarks += [remark for result in results.values() for remark in result.remarks]
    layout = models.layout
    if layout.moved:
        names = ", ".join(name or "0" for name in layout.moved)
        remarks.append(f"input {names}: axis {layout.axis} (channels) was moved last for Flax")
    silenced = [*models.torch.silenced, *models.flax.silenced]
    if silenced:
        remarks.append(f"dropout was off in training mode too: {', '.join(dict.fromkeys(silenced))}")
    if random:
        remarks.append(
            f"{' and '.join(random)} model draws random numbers in training mode: that mode was not compared"
        )
    for call in results["training"].calls[0] if "training" in results else ():
        count = _values_a_channel(models, call)
        if count is not None and count < LEAST_VALUES:
            remarks.append(
                f"{call} had {count} values a channel in training mode: below {LEAST_VALUES} BatchNorm is "
                "ill-conditioned, and two correct models may differ; use a larger batch"
            )
    remarks += [*_of_frozen(models), *_of_rounding(models, results), *_of_precision(models, results)]
    if "evaluation" not in results:
        return remarks
    called = {call.path for call in results["evaluation"].calls[1]}
    unseen = [m.flax.path for m in models.matched.values() if m.entries and m.flax.path not in called]
    if unseen:
        remarks.append(f"not compared one by one, as no call of them was recorded: {', '.join(unseen)}")
    return remarks


def _of_frozen(models: Models) -> Iterator[str]:
    """Yield parameters that only one side trains, if Flax's variable types show it."""
    if not models.flax.tells_frozen:
        return
    entries = [entry for entry in models.mapping.entries if entry.collection in ("params", FROZEN)]
    for kind, said in (
        ("params", "frozen in torch (requires_grad=False), and nnx.Param in Flax, which nnx.Optimizer trains"),
        (FROZEN, "trained in torch, and port.nn.Frozen in Flax"),
    ):
        apart = [
            name
            for entry in entries
            for name in entry.sources[:1]
            if entry.collection == kind and models.torch.frozen.isdisjoint(entry.sources) == (kind == FROZEN)
        ]
        if apart:
            more = f" and {len(apart) - SHOWN} more" if len(apart) > SHOWN else ""
            yield f"{said}: {', '.join(apart[:SHOWN])}{more}"


def _of_rounding(models: Models, results: dict[str, ModeResult]) -> Iterator[str]:
    """Explain float32 computations in between, if the two sides diverge, and what to do."""
    parted = [(mode, result) for mode, result in results.items() if result.partings]
    if not parted or models.torch.precision != "float64" or not models.flax.narrowed(models.flax_inputs):
        return
    for mode, result in parted[:1]:
        narrow = narrow_layers(models, result, training=mode == "training")
        where = ", ".join(f"{path} ({kind})" for path, kind in narrow) or "Flax's model"
        is_attention = any("MultiHead" in kind for _, kind in narrow)
        yield (
            f"{where} goes from float64 to float32 on the way, as jax.nn.dot_product_attention's softmax does: below "
            "1e-6 it cannot agree with torch's. Check again with rtol=1e-6"
            + (", or use port.nn.MultiheadAttention" if is_attention else "")
        )
    for mode, result in parted:
        if result.rounded is not None:
            layer, own = result.rounded
            yield f"{layer} differs first in {mode}, by {own:.0e}; that is rounding, the difference named is far larger"


def _of_precision(models: Models, results: dict[str, ModeResult]) -> Iterator[str]:
    """Yield layers whose results have a lower precision than their inputs."""
    calls_of = results["evaluation"].calls if "evaluation" in results else ([], [])
    for side, calls in zip(("torch", "Flax"), calls_of, strict=True):
        narrow = [call for call in calls if _is_narrow(call, models.torch.precision)]
        if narrow:
            yield (
                f"{narrow[0]} gives {next(iter(narrow[0].outputs.values())).dtype} on the {side} side: "
                "differences below that precision are meaningless"
            )


def _is_narrow(call: RecordedCall, precision: str) -> bool:
    dtypes = {str(array.dtype) for array in call.outputs.values()}
    return precision == "float64" and bool(dtypes & {"float32", "float16", "bfloat16"})


def _values_a_channel(models: Models, call: RecordedCall) -> int | None:
    if "BatchNorm" not in type(models.torch.modules[call.path]).__name__ or not call.inputs:
        return None
    array = next(iter(call.inputs.values()))
    return array.size // array.shape[1]


def _unmatched_before(models: Models, result: ModeResult, parting: Parting) -> list[str]:
    """Return classes of torch's layers without a Flax module between the first differing layer and the previous one."""
    kinds: list[str] = []
    calls = result.calls[0] if parting.direction == "forward" else list(reversed(result.calls[0]))
    classes = {layer.path: layer.kind for layer in models.torch.guide.layers if layer.pairs}
    for call in calls:
        if parting.layer and call.path == parting.layer:
            return kinds
        if call.path in models.matched:
            kinds = []
        elif call.path in classes:
            kinds.append(classes[call.path])
    return kinds


def _of_order(models: Models, result: ModeResult) -> list[str]:
    """Return layers that the two sides call in different orders."""
    twins = {match.flax.path: path for path, match in models.matched.items()}
    theirs = [call.path for call in result.calls[0] if call.path in models.matched]
    ours = [twins[call.path] for call in result.calls[1] if call.path in twins]
    theirs, ours = [path for path in theirs if path in ours], [path for path in ours if path in theirs]
    for a, b in zip(theirs, ours, strict=False):
        if a != b:
            return [f"torch calls {a} where Flax calls {b}: the layers run in another order"]
    return []
