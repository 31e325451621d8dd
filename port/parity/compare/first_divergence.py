"""Find where the two sides first diverge, forward and backward, from the layers' differences."""

from __future__ import annotations

from collections.abc import Sequence

from port.judging import Limits
from port.parity.compare.findings import LayerRow, Parting


def part_forward(rows: Sequence[LayerRow], mode: str, limits: Limits) -> Parting:
    """Find the first layer whose output differs, and whether it or something before it is at fault.

    Args:
        rows: in torch's order.
        mode: "evaluation" or "training".
        limits: what a difference may be.
    """
    limit = limits.forward
    for place, row in enumerate(rows):
        # A flatten in another order shows at the layer that reads it.
        if not _over(row.output, limit):
            continue
        named = _named(row)
        if not _over(row.input, limit):
            why = f"{named} gives another output for the same input: the layer itself"
            return _parting("forward", mode, row, True, why)
        # A layer after a wrong input is correct on the right one.
        before = _before(rows, place, limit)
        if row.alone is None:
            why = f"{named} is the first to differ; its input differs already, {before}"
            return _parting("forward", mode, row, None, why)
        if _over(row.alone, limit):
            why = f"{named} is the first to differ; its input differs already, {before}, and it is wrong itself too"
            return _parting("forward", mode, row, True, why)
        why = f"{named} is right when it is given torch's input: what differs is {before}"
        return _parting("forward", mode, row, False, why)
    last = f"after {rows[-1].layer}, the last of them" if rows else "and no layer was there to compare"
    why = f"in {mode}, all compared layers agree: what differs is in the model's own code, {last}"
    return Parting("forward", mode, "", "", "", "", None, why)


def part_backward(rows: Sequence[LayerRow], mode: str, limits: Limits) -> Parting:
    """The first layer, going back from the output, whose gradients differ.

    Args:
        rows: in torch's order.
        mode: "evaluation" or "training".
        limits: what a difference may be.
    """
    limit, backwards = limits.gradient, list(reversed(rows))
    for row in backwards:
        if _over(row.alone_backward, limit) and not _over(row.arriving, limit):
            why = f"{_named(row)} passes another gradient back for the same input: the layer itself"
            return _parting("backward", mode, row, True, why)
        if _over(row.arriving, limit):
            following = [other.layer for other in backwards[: backwards.index(row)]]
            at = f"between it and {following[-1]}" if following else "after it"
            why = f"{_named(row)} is the first, going back, at which another gradient arrives: it changes {at}"
            return _parting("backward", mode, row, False, why)
        if _over(row.gradient, limit):
            why = f"{_named(row)} is the first, going back, whose parameters have other gradients: the layer itself"
            return _parting("backward", mode, row, True, why)
    why = f"in {mode}, the gradients differ outside of all compared layers"
    return Parting("backward", mode, "", "", "", "", None, why)


def _before(rows: Sequence[LayerRow], place: int, limit: float) -> str:
    """Where to look before a layer, in words."""
    if rows[place].reordered:
        return "the same numbers in another order, as a flatten of channels last gives them"
    right = [row.layer for row in rows[:place] if not _over(row.output, limit)]
    return f"between {right[-1]} and it" if right else "between the model's input and it"


def _named(row: LayerRow) -> str:
    classes = row.torch.rpartition(".")[2], row.flax.rpartition(".")[2]
    return f"{row.layer} ({classes[0]}; {row.path}, {classes[1]})"


def _parting(direction: str, mode: str, row: LayerRow, itself: bool | None, why: str) -> Parting:
    layer, path = (name.partition(" (call ")[0] for name in (row.layer, row.path))
    said = f"{direction}, {mode}: {why}"
    kind = "forward" if direction == "forward" else "backward"
    return Parting(kind, mode, layer, path, row.torch, row.flax, itself, said, row.notes)  # type: ignore[arg-type]


def _over(value: float | None, limit: float) -> bool:
    return value is not None and value > limit
