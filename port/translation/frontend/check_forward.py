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
from port.translation.frontend.shape_runs import UNDECIDED, ShapeRuns, is_without_numbers
from port.translation.frontend.source_locations import assigned_at, is_users
from port.translation.frontend.uninitialized import filled_at_random

_METHODS = (
    *("modules", "named_modules", "children", "named_children", "get_submodule"),
    *("parameters", "named_parameters", "buffers", "named_buffers", "state_dict", "load_state_dict"),
    *("train", "eval", "requires_grad_"),
)
"""Methods of torch.nn.Module that torch, or this translation, calls on any module."""


_SEEDS = count()
"""Seeds for filling uninitialised memory. Each is used once: a run may get memory that an earlier run has filled."""


def check_forward(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Run a module and a copy of it once in evaluation mode, and compare them; all later runs are of copies.

    Args:
        module: the original; left unchanged.
        args: positional example inputs.
        kwargs: example inputs by name.

    Raises:
        UsageError: the module does not accept its inputs; an attribute hides one of torch's methods; a copy computes
            something else.
    """
    check_methods(module)
    with same_numbers_afterwards():
        _check_copy(module, args, kwargs)


def _check_copy(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    made, memo = copied_with_memo(module)
    name = type(module).__qualname__
    if is_without_numbers(module):
        try:
            _run(made, args, kwargs, f"{name} does not take the example inputs")
        except UsageError:
            if not _reads_values(module, args, kwargs):
                raise
        return
    with _restored_afterwards(module, memo):
        theirs = _run(module, args, kwargs, f"{name} does not take the example inputs")
    own = f"{name} runs, but translation and proof run copies of it, and a copy"
    seed = next(_SEEDS)
    with _reads(module) as read, filled_at_random(seed) as places:
        ours = _run(made, args, kwargs, f"{own} fails: it may identify its parts by id() or the like")
    if read:
        raise UsageError(f"{own} reads the original's {read[0]}: a global or a class holds it; read it through self")
    number = next((k for k, (one, other) in enumerate(zip(theirs, ours, strict=False)) if not _same(one, other)), None)
    if len(theirs) != len(ours) or number is not None:
        if places and _reads_uninitialized_memory(module, args, kwargs, ours, seed):
            raise UsageError(
                f"{name} returns uninitialised memory (output {number or 0}): {places[0]} makes a tensor that nothing "
                "fills. torch.zeros instead of torch.empty makes every run the same"
            )
        raise UsageError(
            f"{own} computes something else (output {number or 0}): the module draws random numbers that torch's seed "
            "does not control, keeps state that is not a tensor and cannot be copied, or identifies its parts by id()"
        )


def _reads_values(module: Any, args: Any, kwargs: Any) -> bool:
    """Whether a module on the meta device takes its inputs, but for a value that it reads: a capture says of which."""
    try:
        run = ShapeRuns(module)
        run(*run.inputs(args, kwargs))
    except UNDECIDED:
        return True
    except Exception:
        return False
    return True


def _reads_uninitialized_memory(module: Any, args: Any, kwargs: Any, ours: list[Any], seed: int) -> bool:
    """Whether a module's results depend on what uninitialised memory holds.

    Args:
        module: the original.
        args: positional arguments of the example call.
        kwargs: keyword arguments of the example call.
        ours: a copy's results.
        seed: the seed of the numbers that filled memory in that run.
    """
    runs = []
    for filled in (seed, next(_SEEDS)):
        made, _ = copied_with_memo(module)
        with filled_at_random(filled):
            runs.append(_run(made, args, kwargs, "a copy does not run again"))
    alike = [len(ours) == len(run) and all(map(_same, ours, run)) for run in runs]
    return alike == [True, False]


def check_draws(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Check that a module's results do not depend on Python's or numpy's random numbers.

    Called where a run has used one of these generators, or may have.

    Raises:
        NoPair: the results depend on them; names the line that draws.
    """
    if is_without_numbers(module):
        return
    fails = f"a copy of {type(module).__qualname__} fails"

    def run(copy: Any) -> list[Any]:
        modes = (True, False)  # training first: layers are skipped there, so its draws come first
        return [tensor for training in modes for tensor in _run(copy, args, kwargs, fails, training=training)]

    check_random_source(lambda: copied_with_memo(module)[0], run, _same)


def check_methods(module: Any) -> None:
    """Check that torch's own methods can be called on a module and its submodules.

    Raises:
        UsageError: an attribute that is not callable hides such a method.
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
                    "rename the attribute"
                )
        waiting += [(f"{path}.{name}" if path else name, child) for name, child in vars(inner)["_modules"].items()]


def _run(
    module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], fails: str, *, training: bool = False
) -> list[Any]:
    """Run a module in one mode and return the tensors in its results.

    Raises:
        UsageError: the module fails; the message begins with ``fails``.
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
    """Whether two tensors are equal, up to the order in which threads add."""
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
def _restored_afterwards(module: Any, memo: dict[int, Any]) -> Iterator[None]:
    """Restore a module, and everything that it reaches, on leaving the context.

    Args:
        module: may be run within the context.
        memo: the memo of an earlier deep copy, which holds the tensors' values.
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
    """Restore a dict, list or set whose contents have changed."""
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
    """Collect the names of the module's parameters and buffers that any operator reads, within the context."""
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
    """Return the address of a tensor's storage; 0 for anything without one."""
    import torch

    if not isinstance(leaf, torch.Tensor) or leaf.layout is not torch.strided:
        return 0
    try:
        return leaf.untyped_storage().data_ptr()
    except (NotImplementedError, RuntimeError):  # a tensor subclass that wraps other tensors
        return 0
