"""Validates the parts of a torch optimizer's state dict. A file may contain anything in their place."""

from __future__ import annotations

import sys
from collections.abc import Mapping as Saved
from typing import Any

from port.errors import BrokenWeights
from port.optim.memory import LISTS, VECTORS
from port.optim.options import reason_against, shown
from port.pairs.optimizers import STEP, OptimizerPair

LARGEST = 2**31 - 1
"""The largest count of steps: JAX stores it as an int32."""


def check_form(where: str, saved: Saved[str, Any]) -> None:
    """Check that there are groups of numbered parameters, and states only for those.

    Args:
        where: the file and the place in it, for messages.
        saved: the state dict, with ``param_groups`` and ``state``.

    Raises:
        BrokenWeights: a part is something else; says where it is and what was found.
    """
    groups, states = saved["param_groups"], saved["state"]
    if not isinstance(groups, list) or not groups:
        raise _broken(f"{where}: param_groups", "a list of groups", groups)
    numbers: list[int] = []
    for place, group in enumerate(groups):
        here = f"{where}: param_groups[{place}]"
        if not isinstance(group, Saved):
            raise _broken(here, "a group's options", group)
        if "params" not in group:
            raise BrokenWeights(f"{here} does not list its parameters: it has no 'params'")
        if not _is_list(group["params"], int):
            raise _broken(f"{here}: params", "a list of the parameters' numbers", group["params"])
        if "param_names" in group and (
            not _is_list(group["param_names"], str) or len(group["param_names"]) != len(group["params"])
        ):
            expected = f"a name for each of {len(group['params'])} parameters"
            raise _broken(f"{here}: param_names", expected, group["param_names"])
        numbers += group["params"]
    if len(set(numbers)) != len(numbers):
        raise BrokenWeights(f"{where}: param_groups: a parameter is in them twice: {shown(numbers)}")
    if not isinstance(states, Saved):
        raise _broken(f"{where}: state", "the states by the parameters' numbers", states)
    for index, state in states.items():
        if index not in numbers:
            raise BrokenWeights(f"{where}: state[{shown(index)}] is the state of a parameter that is in no group")
        if not isinstance(state, Saved) or not all(isinstance(key, str) for key in state):
            raise _broken(f"{where}: state[{index}]", "a parameter's state by torch's keys", state)


def check_options(where: str, pair: OptimizerPair, groups: list[Any]) -> None:
    """Check that each group has all of the optimizer's options, with values that torch accepts.

    Args:
        where: the file and the place in it, for messages.
        pair: the optimizer's pair.
        groups: as loaded by torch: with defaults for the options that older versions did not write.

    Raises:
        BrokenWeights: an option is missing, or has a value of the wrong kind.
    """
    for place, group in enumerate(groups):
        here = f"{where}: param_groups[{place}]"
        if missing := [option for option in pair.defaults if option not in group]:
            raise BrokenWeights(f"{here} has no {' and no '.join(missing)}, which {pair.torch} needs")
        if (reason := reason_against(pair, group)) is not None:
            raise BrokenWeights(f"{here}: {reason}")


def check_values(where: str, pair: OptimizerPair, state: Saved[str, Any]) -> None:
    """Check that a parameter's state has numbers and moments where they belong.

    Args:
        where: the file, the place in it and the parameter, for messages.
        pair: the optimizer's pair. LBFGS's state is different: see `check_memory`.
        state: with torch's keys, only the pair's.

    Raises:
        BrokenWeights: a value of the wrong kind; no count of steps where torch counts.
    """
    if state and pair.counts and STEP not in state:
        raise BrokenWeights(f"{where} has no {STEP}, only {', '.join(state)}")
    for key, value in state.items():
        if key == STEP:
            if not _is_count(value):
                raise _broken(f"{where}: {key}", "a number of steps", value)
        elif key in pair.scalars:
            if not _is_number(value):
                raise _broken(f"{where}: {key}", "a number", value)
        elif value is not None and not is_floating(value):
            raise _broken(f"{where}: {key}", "a tensor of floating-point numbers", value)


def check_memory(where: str, state: Saved[str, Any], size: int) -> None:
    """Check that LBFGS's state has flat vectors over all parameters, and numbers.

    Args:
        where: the file, the place in it and the parameter, for messages.
        state: with torch's keys.
        size: the number of elements of all parameters.

    Raises:
        BrokenWeights: a value of the wrong kind or length, or a missing one.
    """
    for key in ("func_evals", "n_iter"):
        if state and not _is_count(state.get(key)):
            raise _broken(f"{where}: {key}", "a count", state.get(key))
    if not state or not state["n_iter"]:
        return
    vector = f"a vector of {size} numbers"
    for key in VECTORS:
        if not _is_vector(state.get(key), size):
            raise _broken(f"{where}: {key}", vector, state.get(key))
    for key in LISTS:
        vectors = state.get(key)
        if not isinstance(vectors, list) or not all(_is_vector(value, size) for value in vectors):
            raise _broken(f"{where}: {key}", f"a list, each {vector}", vectors)
    ratios = state.get("ro")
    if not isinstance(ratios, list) or not all(map(_is_number, ratios)):
        raise _broken(f"{where}: ro", "a list of numbers", ratios)
    if len({len(state[key]) for key in (*LISTS, "ro")}) > 1:
        raise BrokenWeights(f"{where}: {', '.join(LISTS)} and ro must have equal lengths")
    for key in ("t", "H_diag", "prev_loss"):
        if not _is_number(state.get(key)):
            raise _broken(f"{where}: {key}", "a number", state.get(key))


def is_floating(value: Any) -> bool:
    """Whether it is a tensor of floating-point or complex numbers, as moments are."""
    import torch

    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def _broken(place: str, expected: str, found: Any) -> BrokenWeights:
    shape = getattr(found, "shape", None)
    got = shown(found) if shape is None else f"a tensor of shape {tuple(shape)}, {found.dtype}"
    return BrokenWeights(f"{place} must be {expected}, got {got}")


def _is_list(value: Any, kind: type) -> bool:
    return isinstance(value, list) and all(isinstance(one, kind) for one in value)


def _is_number(value: Any) -> bool:
    if getattr(value, "shape", None) == ():
        value = value.item()
    return isinstance(value, int | float) and abs(value) <= sys.float_info.max


def _is_count(value: Any) -> bool:
    return _is_number(value) and 0 <= value <= LARGEST


def _is_vector(value: Any, size: int) -> bool:
    return is_floating(value) and tuple(value.shape) == (size,)
