"""Infer the constructor arguments of an existing module, and confirm them by constructing a module like it."""

from __future__ import annotations

import copy
import heapq
import inspect
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from port.translation.frontend.construction.argument_candidates import Reader
from port.translation.frontend.construction.argument_matching import ArgumentCandidate
from port.translation.frontend.construction.constructor_source import is_switch
from port.translation.frontend.construction.likeness import are_tables_the_same, described, description, is_torchs
from port.translation.frontend.meta_device import constructed_on_meta
from port.translation.frontend.python_random import reseeded
from port.translation.frontend.quiet import quiet

_ATTEMPTS, _SECONDS = 64, 10.0
_FEW = 2**24
_DEFAULT, _OTHER = 3, 5
"""Costs of two kinds of candidates: a parameter's default, and a bool's other value."""


def constructor_arguments(module: torch.nn.Module) -> inspect.BoundArguments | None:
    """Find arguments with which a module's class makes a module like it; None where none are found.

    Candidates come from the module's attributes and its constructor's source. They are confirmed by constructing a
    module that equals the original in everything but the values of its weights.

    Args:
        module: the module; left unchanged. None is returned for torch's own classes.
    """
    cls = type(module)
    if is_torchs(cls):
        return None
    try:
        signature = inspect.signature(cls)
    except (TypeError, ValueError):
        return None
    choices = _choices(signature, module)
    if not all(choices.values()):
        return None
    wanted = description(module)
    began = time.monotonic()
    for arguments in islice(_best_first(choices), _ATTEMPTS):
        bound = _bound(signature, arguments)
        if bound is not None and _makes_alike(module, bound, wanted):
            return bound
        if time.monotonic() - began > _SECONDS:
            break
    return None


def _choices(signature: inspect.Signature, module: torch.nn.Module) -> dict[str, list[ArgumentCandidate]]:
    """Return the candidates for each parameter, likeliest first."""
    found = Reader().arguments_of(module)
    choices = {}
    for name, parameter in signature.parameters.items():
        candidates = list(found.get(name, ()))
        if parameter.kind is parameter.VAR_POSITIONAL:
            candidates.append(ArgumentCandidate(_DEFAULT, ()))
        elif parameter.kind is parameter.VAR_KEYWORD:
            candidates.append(ArgumentCandidate(_DEFAULT, {}))
        elif parameter.default is not parameter.empty:
            candidates.append(ArgumentCandidate(_DEFAULT, parameter.default))
        if is_switch(parameter):
            candidates += [ArgumentCandidate(_OTHER, value) for value in (False, True)]
        distinct: dict[Any, ArgumentCandidate] = {}
        for candidate in sorted(candidates, key=lambda candidate: candidate.cost):
            distinct.setdefault(described(candidate.value), candidate)
        choices[name] = list(distinct.values())
    return choices


def _best_first(choices: Mapping[str, list[ArgumentCandidate]]) -> Iterator[dict[str, Any]]:
    """Yield combinations of candidates in order of increasing total cost."""
    names = list(choices)

    def cost(places: tuple[int, ...]) -> int:
        return sum(choices[name][place].cost for name, place in zip(names, places, strict=True))

    first = (0,) * len(names)
    waiting, seen = [(cost(first), first)], {first}
    while waiting:
        _, places = heapq.heappop(waiting)
        yield {name: choices[name][place].value for name, place in zip(names, places, strict=True)}
        for number, name in enumerate(names):
            following = (*places[:number], places[number] + 1, *places[number + 1 :])
            if following[number] < len(choices[name]) and following not in seen:
                seen.add(following)
                heapq.heappush(waiting, (cost(following), following))


def _bound(signature: inspect.Signature, arguments: Mapping[str, Any]) -> inspect.BoundArguments | None:
    """Bind deep copies of the arguments, since a constructor may change its arguments, and the module holds these."""
    defaults = {name: each.default for name, each in signature.parameters.items()}
    try:
        own = copy.deepcopy({name: each for name, each in arguments.items() if each is not defaults[name]})
    except Exception:  # whatever a copy raises
        return None
    bound = inspect.BoundArguments(signature, {**arguments, **own})  # type: ignore[arg-type]
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            bound.arguments[name] = tuple(bound.arguments[name])
    return bound


def _makes_alike(module: torch.nn.Module, bound: inspect.BoundArguments, wanted: Any) -> bool:
    cls = type(module)

    def construct() -> torch.nn.Module:
        own = _bound(bound.signature, bound.arguments)
        assert own is not None, "a copy can be copied"
        made: torch.nn.Module = cls(*own.args, **own.kwargs)
        return made

    ways = [constructed_on_meta(construct)]
    if sum(tensor.numel() for tensor in module.parameters() if not is_lazy(tensor)) < _FEW:
        ways.append(construct)  # a constructor may read the numbers that it draws
    for way in ways:
        try:
            with _silence():
                return description(_drawn(way, 1)) == wanted and are_tables_the_same(module, partial(_drawn, way))
        except RuntimeError:
            continue
        except (Exception, SystemExit):  # a constructor may raise anything for invalid arguments
            return False
    return False


def _drawn(construct: Callable[[], torch.nn.Module], seed: int) -> torch.nn.Module:
    with reseeded(seed):
        return construct()


@contextmanager
def _silence() -> Iterator[None]:
    """Disable all logging within the context."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with quiet():
            yield
    finally:
        logging.disable(before)
