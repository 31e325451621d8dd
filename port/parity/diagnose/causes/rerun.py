"""torch's model run again, as far as one of its layers, with some of its operations done in another way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from port.parity.diagnose.causes.operation import Operation, Run, arguments_of, name_of
from port.parity.sides.calls import Arrays, Call, numpy_leaves
from port.parity.sides.inputs import Inputs
from port.parity.sides.structure import rebuilt
from port.parity.sides.torch_side import TorchSide
from port.weights.torch import arrays_of


@dataclass
class Rerun:
    """What a run gave.

    Attributes:
        operations: its operations, in their order; those of the layer itself too.
        call: of the layer that it went as far as; None of a whole run.
        calls: of all layers, in the order in which they finished; of a whole run where they are asked for.
        numbers: how many numbers its operations were given.
        started: how many operations there were before that call.
        outputs: the model's; of a whole run.
        buffers: the model's state dict after it; of a whole run.
    """

    operations: list[Operation] = field(default_factory=list)
    numbers: int = 0
    call: Call | None = None
    calls: list[Call] = field(default_factory=list)
    started: int = 0
    outputs: Arrays = field(default_factory=dict)
    buffers: Arrays = field(default_factory=dict)


class _Reached(Exception):
    """The run has come as far as it was to."""


class _Stand(TorchFunctionMode):
    """Stands in every call of a torch function: numbers it, and does it in another way where one is given."""

    def __init__(self, rerun: Rerun, ways: Mapping[int, Run], layers: list[str]) -> None:
        super().__init__()
        self._rerun, self._ways, self._layers = rerun, ways, layers
        self._count = 0

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        number, self._count = self._count, self._count + 1
        name = name_of(function)
        arguments = arguments_of(function, args, kwargs or {})
        self._rerun.operations.append(Operation(number, name, arguments, self._layers[-1] if self._layers else ""))
        self._rerun.numbers += sum(value.numel() for value in arguments.values() if isinstance(value, torch.Tensor))
        way = self._ways.get(number)
        return function(*args, **(kwargs or {})) if way is None else way(function, arguments)


def rerun(
    side: TorchSide,
    inputs: Inputs,
    *,
    training: bool,
    until: str | None = None,
    ways: Mapping[int, Run] | None = None,
    steps: int = 1,
    watch: bool = False,
) -> Rerun:
    """Run a fresh copy of torch's model.

    Args:
        side: torch's.
        inputs: as the model takes them.
        training: the mode.
        until: the call that it goes as far as, by its key; None for the whole model.
        ways: the operation's number → how it is done. Of several steps, in each.
        steps: how many times the model is called.
        watch: write down every layer's call.

    Raises:
        Exception: whatever the model, or an operation done in another way, raises.
    """
    done, layers, output = Rerun(), list[str](), None
    module = side.fresh(training)
    _follow(module, done, layers, until, watch=watch)
    with torch.random.fork_rng(devices=[]):
        for _ in range(steps):
            *args, kwargs = side.tensors(inputs)
            done.operations.clear()
            try:
                with _Stand(done, ways or {}, layers):
                    output = module(*args, **kwargs)
            except _Reached:
                return done
    done.outputs = numpy_leaves(output)
    done.buffers = arrays_of(module)
    return done


@contextmanager
def instrumented(ways: Mapping[int, Run]) -> Iterator[list[Operation]]:
    """Do operations in other ways in whatever of torch's is run meanwhile; gives all of them, in their order."""
    done = Rerun()
    with _Stand(done, ways, []):
        yield done.operations


def _follow(module: nn.Module, done: Rerun, layers: list[str], until: str | None, *, watch: bool) -> None:
    """Keep the path of the module that runs in ``layers``, and end the run when the one that it goes to is done."""
    counts: dict[str, int] = {}
    running: list[Call] = []

    def before(path: str, layer: nn.Module, args: Any, kwargs: Any) -> None:
        layers.append(path)
        number = counts[path] = counts.get(path, -1) + 1
        if f"{path}#{number}" == until or watch:
            done.started = len(done.operations)
            *positional, named = _kept((*args, kwargs))
            running.append(Call(path, number, tuple(positional), named))

    def after(layer: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        path = layers.pop()
        if f"{path}#{counts[path]}" == until:
            done.call = running.pop()
            done.call.output = _kept(output)
            raise _Reached
        if watch:
            done.calls.append(running.pop())
            done.calls[-1].output = _kept(output)

    for path, layer in module.named_modules():
        if path:
            layer.register_forward_pre_hook(partial(before, path), with_kwargs=True)
            layer.register_forward_hook(after, with_kwargs=True)


def _kept(value: Any) -> Any:
    """A structure's tensors as tensors of their own, so that nothing changes them in place."""
    with torch._C.DisableTorchFunction():
        return rebuilt(value, lambda name, tensor: tensor.detach().clone())
