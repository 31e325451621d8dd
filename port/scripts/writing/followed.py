"""Select the part of a loss's path that is followed: the calls that lead to it from a model or a batch.

A step is watched from its first batch or model on, so the calls that make a batch are seen only in later steps. They
are not part of a loss: their result is an input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from port.scripts.observing.graph import Computation
from port.scripts.writing.capture import LossPath, PathTensor, TensorAxis, mapped, path_tensors
from port.scripts.writing.number_names import numbers_in

MADE_ALIKE = ("new_zeros", "new_ones", "new_full", "new_empty", "zeros_like", "ones_like", "full_like", "empty_like")
"""Calls that use only a tensor's dtype and shape."""


COUNTING = ("torch.arange", "torch.eye")
"""Functions that always return the same for a number."""
FLATTENED = ("view", "reshape", "flatten")
UNCHANGED = ("detach", "clone", "contiguous", "to")
"""Methods that return the tensor unchanged."""


def followed(path: LossPath) -> LossPath:
    """The path without unfollowed calls; tensors passed unchanged from the previous step are marked as such."""
    beyond = outside(path.calls, path.lengths)
    needed = needed_calls(path.calls, beyond)
    made = {call.number: call for call in path.calls if call.number in beyond}
    calls = [call for call in path.calls if call.number in needed]
    inputs = [tensor for call in calls for tensor in path_tensors(call.live) if tensor.call not in needed]
    flattening = {call.number: call for tensor in inputs if (call := _flattening(tensor, made, inputs)) is not None}
    kept: list[Computation] = []
    for call in calls:
        before = [flattening.pop(tensor.call) for tensor in path_tensors(call.live) if tensor.call in flattening]
        for one in [*before, call]:
            live = mapped(one.live, lambda tensor: replace(tensor, origin=_origin(tensor, made)))
            kept.append(replace(one, live=live))
    return replace(path, calls=kept)


def _flattening(flat: PathTensor, made: dict[int, Computation], inputs: Sequence[PathTensor]) -> Computation | None:
    """The call that flattens a tensor of another input's shape, as done with the next word of each word.

    Such a call is followed: two axes may vary in length independently, which one flattened length could not express.
    """
    call = made.get(flat.call) if flat.call is not None else None
    if call is None or call.live is None or call.name.rpartition(".")[2] not in FLATTENED:
        return None
    (tensor, *sizes), named = call.live
    if sizes not in ([-1], [(-1,)], []) or named or not isinstance(tensor, PathTensor) or tensor.value is None:
        return None
    if tensor.value.dim() < 2 or all(_shape(other) != tensor.value.shape for other in inputs if other is not flat):
        return None
    description = {**tensor.description, "flattened": True}
    whole = replace(tensor, description=description, call=None, variable=flat.variable, expression=flat.expression)
    return replace(call, live=((whole, *sizes), named))


def _shape(tensor: PathTensor) -> torch.Size | None:
    return None if tensor.value is None else tensor.value.shape


def _origin(tensor: PathTensor, made: dict[int, Computation]) -> tuple[int, str] | None:
    while tensor.origin is None and tensor.call in made:
        call = made[tensor.call]
        tensors = path_tensors(call.live)
        if call.name.rpartition(".")[2] not in UNCHANGED or len(tensors) != 1:
            return None
        (tensor,) = tensors
    return tensor.origin


def outside(calls: Sequence[Computation], lengths: Mapping[int, Mapping[int, TensorAxis]] | None = None) -> set[int]:
    """Calls that depend neither on a model nor on a batch alone: their results are inputs.

    Args:
        calls: a path's calls.
        lengths: the numbers among their arguments that are lengths, by the call's number: a result of these alone
            (``torch.arange(len(x))``) is computed from a batch.
    """
    found: set[int] = set()
    models = from_models(calls)
    for call in calls:
        tensors = path_tensors(call.live)
        if call.number in models:
            continue
        is_of_others = any(one.call in found or (one.call is None and not _is_followed(one)) for one in tensors)
        is_made = not tensors and not _counts_along(call, lengths or {})
        if is_made or is_of_others or _is_made_alike(call):
            found.add(call.number)
    return found


def _counts_along(call: Computation, lengths: Mapping[int, Mapping[int, TensorAxis]]) -> bool:
    """Whether a call returns the same numbers for every batch of one length."""
    found = lengths.get(call.number, {})
    return call.name in COUNTING and bool(found) and len(found) == len(numbers_in(call.live))


def from_models(calls: Sequence[Computation]) -> set[int]:
    """Calls that depend on a model's parameters, directly or indirectly."""
    found: set[int] = set()
    for call in calls:
        has_own = bool(call.more.get("has_parameters"))
        is_model = has_own or any(
            "parameter" in one.description or one.call in found for one in path_tensors(call.live)
        )
        if is_model and not _is_made_alike(call):
            found.add(call.number)
    return found


def _is_made_alike(call: Computation) -> bool:
    return call.name.rpartition(".")[2] in MADE_ALIKE


def _is_followed(tensor: PathTensor) -> bool:
    return "batch" in tensor.description or "flattened" in tensor.description


def needed_calls(calls: Sequence[Computation], beyond: set[int], ends: Sequence[int] = ()) -> set[int]:
    """The numbers of the calls needed to compute ``ends``, up to calls that are not followed.

    Args:
        calls: a path's calls.
        beyond: the numbers of the calls that are not followed.
        ends: the numbers of the calls whose results are wanted; by default the last call.
    """
    by_number = {call.number: call for call in calls}
    pending, found = list(ends or [calls[-1].number]), set[int]()
    while pending:
        number = pending.pop()
        if number not in found and number not in beyond and number in by_number:
            found.add(number)
            pending += [one.call for one in path_tensors(by_number[number].live) if one.call is not None]
    return found
