"""Check that a module runs on its example inputs, and that a copy of it computes the same."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from port.errors import PortError, UsageError
from port.parity.sides.copies import copied_with_memo
from port.parity.sides.reachable import reached
from port.translation.frontend.python_random import check_random_source, same_numbers_afterwards
from port.translation.frontend.shape_runs import is_without_numbers
from port.translation.frontend.source_locations import assigned_at, is_users
from port.translation.frontend.uninitialized import filled_at_random

_METHODS = (
    *("modules", "named_modules", "children", "named_children", "get_submodule"),
    *("parameters", "named_parameters", "buffers", "named_buffers", "state_dict", "load_state_dict"),
    *("train", "eval", "requires_grad_"),
)
"""Of torch.nn.Module: torch, or this translation, calls them on any module."""


_SEEDS = count()
"""Of random numbers in memory: each once, for the memory that the original gets may hold those of a copy before it."""


def check_forward(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Run a module and a copy of it once, in evaluation; what is translated and proven are runs of copies.

    Args:
        module: stays as it is.
        args: example inputs.
        kwargs: those by name.

    Raises:
        UsageError: it does not take its inputs; an attribute hides a method of torch's; a copy computes something else.
    """
    check_methods(module)
    with same_numbers_afterwards():
        _check_copy(module, args, kwargs)


def _check_copy(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    made, memo = copied_with_memo(module)
    name = type(module).__qualname__
    if is_without_numbers(module):
        _run(made, args, kwargs, f"{name} does not take the example inputs")
        return
    with _as_it_was(module, memo):
        theirs = _run(module, args, kwargs, f"{name} does not take the example inputs")
    own = f"{name} runs, but what is translated and proven are runs of copies, and a copy of it"
    seed = next(_SEEDS)
    with _reads(module) as read, filled_at_random(seed) as places:
        ours = _run(made, args, kwargs, f"{own} fails: it may tell its parts by what no copy has, as id()")
    if read:
        raise UsageError(f"{own} reads {read[0]} of the original: a global, or a class, holds it; use self")
    number = next((k for k, (one, other) in enumerate(zip(theirs, ours, strict=False)) if not _same(one, other)), None)
    if len(theirs) != len(ours) or number is not None:
        if places and _is_of_memory(module, args, kwargs, ours, seed):
            raise UsageError(
                f"{name} gives memory as it happens to be (output {number or 0}): {places[0]} makes a tensor that "
                "nothing fills; torch.zeros in place of torch.empty makes it the same at every run"
            )
        raise UsageError(
            f"{own} gives something else (output {number or 0}): it draws numbers that no seed of torch's decides, "
            "keeps a state that is no tensor and cannot be copied, or tells its parts by what no copy has, as id()"
        )


def _is_of_memory(module: Any, args: Any, kwargs: Any, ours: list[Any], seed: int) -> bool:
    """Whether copies of a module give what `ours` is where memory is filled alike, and something else where not.

    Args:
        module: the original.
        args: of the example call.
        kwargs: of the example call.
        ours: what a copy gave.
        seed: with which memory was filled then.
    """
    runs = []
    for filled in (seed, next(_SEEDS)):
        made, _ = copied_with_memo(module)
        with filled_at_random(filled):
            runs.append(_run(made, args, kwargs, "a copy does not run again"))
    alike = [len(ours) == len(run) and all(map(_same, ours, run)) for run in runs]
    return alike == [True, False]


def check_draws(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Run copies of a module; to be called where a run of it has used Python's or numpy's generator, or may have.

    Raises:
        NoPair: what it gives depends on the numbers that these draw.
    """
    if is_without_numbers(module):
        return
    fails = f"a copy of {type(module).__qualname__} fails"

    def run(copy: Any) -> list[Any]:
        modes = (True, False)  # the first draws are training's: there layers are skipped
        return [tensor for training in modes for tensor in _run(copy, args, kwargs, fails, training=training)]

    check_random_source(lambda: copied_with_memo(module)[0], run, _same)


def check_methods(module: Any) -> None:
    """Check that torch's own methods can be called on a module and its submodules.

    Raises:
        UsageError: an attribute has the name of one, and is no function.
    """
    waiting = [("", module)]
    seen: set[int] = set()
    while waiting:
        path, inner = waiting.pop(0)
        if inner is None or id(inner) in seen:
            continue
        seen.add(id(inner))
        for name in _METHODS:
            if name in vars(inner) and not callable(vars(inner)[name]):
                place = assigned_at(type(inner), name)
                raise UsageError(
                    f"{type(inner).__qualname__}{f' ({path})' if path else ''} sets self.{name}"
                    f"{f' at {place}' if place is not None else ''}, which hides torch.nn.Module.{name}: "
                    "give the attribute another name"
                )
        waiting += [(f"{path}.{name}" if path else name, child) for name, child in vars(inner)["_modules"].items()]


def _run(
    module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], fails: str, *, training: bool = False
) -> list[Any]:
    """The tensors that a module gives; in evaluation, or in training.

    Raises:
        UsageError: it fails; begins with ``fails``.
    """
    import torch
    from torch.utils import _pytree as pytree

    def own(leaf: Any) -> Any:
        return leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf

    try:
        args, kwargs = pytree.tree_map(own, (args, kwargs))
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            results = module.train(training)(*args, **kwargs)
    except PortError:
        raise
    except Exception as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_users(frame.filename)]
        where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
        raise UsageError(f"{fails}{where}: {_first_line(error)}") from None
    return [own(leaf) for leaf in pytree.tree_leaves(results) if isinstance(leaf, torch.Tensor)]


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__


def _same(one: Any, other: Any) -> bool:
    """Whether two tensors are equal but for what threads may add in another order."""
    import torch

    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    one, other = (tensor.to_dense() if tensor.layout is not torch.strided else tensor for tensor in (one, other))
    if not one.numel() or one.is_quantized or torch.equal(one, other):
        return True
    wide = torch.complex128 if one.is_complex() else torch.float64
    one, other = one.to(wide), other.to(wide)
    finite = one[one.isfinite()].abs()
    scale = float(finite.max()) if finite.numel() else 0.0
    return torch.allclose(one, other, rtol=0, atol=1e-4 * scale, equal_nan=True)


@contextmanager
def _as_it_was(module: Any, memo: dict[int, Any]) -> Iterator[None]:
    """After it, a module is as it was before, with all that it reaches.

    Args:
        module: may be run within.
        memo: of a copy that was made of it before: it has the tensors' numbers.
    """
    import torch

    tensors: list[Any] = []
    generators: list[tuple[Any, Any]] = []
    containers: list[tuple[Any, Any]] = []
    for _, thing in reached(module):
        if isinstance(thing, torch.Tensor):
            tensors.append((thing, thing.grad if thing.is_leaf else None))
        if isinstance(thing, torch.Generator):
            generators.append((thing, thing.get_state()))
        own = getattr(thing, "__dict__", None)
        for held in (thing, *([own, *own.values()] if isinstance(own, dict) else [])):
            if isinstance(held, dict | list | set):
                containers.append((held, dict(held) if isinstance(held, dict) else list(held)))
    try:
        yield
    finally:
        for held, before in containers:
            _restore(held, before)
        for generator, state in generators:
            generator.set_state(state)
        with torch.no_grad():
            for tensor, gradient in tensors:
                copy = memo.get(id(tensor))
                if copy is not None and tensor.layout is torch.strided and not torch.equal(tensor, copy):
                    tensor.data.copy_(copy)
                if tensor.is_leaf:
                    tensor.grad = gradient


def _restore(held: Any, before: Any) -> None:
    """Give a dict, a list or a set what it had, where it has something else."""
    if isinstance(held, dict):
        now: Any = [part for item in held.items() for part in item]
        then: Any = [part for item in before.items() for part in item]
    else:
        now, then = list(held), before
    if len(now) != len(then) or any(one is not other for one, other in zip(now, then, strict=True)):
        held.clear()
        (held.extend if isinstance(held, list) else held.update)(before)


@contextmanager
def _reads(module: Any) -> Iterator[list[str]]:
    """Within it, the names of a module's own parameters and buffers are noted that any operator takes."""
    from torch.utils import _pytree as pytree
    from torch.utils._python_dispatch import TorchDispatchMode

    held = (*module.named_parameters(), *module.named_buffers())
    names = {_storage(tensor): name for name, tensor in held if _storage(tensor)}
    read: list[str] = []

    class Noting(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            for leaf in pytree.tree_leaves((args, kwargs)):
                name = names.get(_storage(leaf))
                if name is not None:
                    read.append(name)
            return func(*args, **(kwargs or {}))

    with Noting():
        yield read


def _storage(leaf: Any) -> int:
    """Where a tensor's numbers begin in memory; 0 for what has none."""
    import torch

    if not isinstance(leaf, torch.Tensor) or leaf.layout is not torch.strided:
        return 0
    try:
        return leaf.untyped_storage().data_ptr()
    except (NotImplementedError, RuntimeError):  # a wrapper of other tensors
        return 0
