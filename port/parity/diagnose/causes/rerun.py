"""torch's model run again, as far as one of its layers, with some of its operations done in another way."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from port.parity.diagnose.causes.operation import Run, TorchOperation, arguments_of, name_of
from port.parity.sides.calls import Arrays, RecordedCall, numpy_leaves
from port.parity.sides.inputs import Inputs
from port.parity.sides.structure import rebuilt
from port.parity.sides.torch_side import TorchSide
from port.weights.torch import arrays_of

_NOT_THE_MODELS = str(Path(torch.__file__).parent), str(Path(__file__).parents[2])
"""Where the source of torch and of this package is."""
_LONGEST_LINE = 80
CALL = "call"
"""The name of the operation that a layer's call is."""


@dataclass
class Rerun:
    """What a run gave.

    Attributes:
        operations: its operations, in their order; those of the layer itself too.
        layers: the calls of layers as operations, whose numbers count down from −1, in the order in which they began.
        begun: the number of a layer's call → how many operations there were before it.
        call: of the layer that it went as far as; None of a whole run.
        calls: of all layers, in the order in which they finished; of a whole run where they are asked for.
        numbers: how many numbers its operations were given.
        started: how many operations there were before that call.
        outputs: the model's; of a whole run.
        buffers: the model's state dict after it; of a whole run.
    """

    operations: list[TorchOperation] = field(default_factory=list)
    layers: list[TorchOperation] = field(default_factory=list)
    begun: dict[int, int] = field(default_factory=dict)
    numbers: int = 0
    call: RecordedCall | None = None
    calls: list[RecordedCall] = field(default_factory=list)
    started: int = 0
    outputs: Arrays = field(default_factory=dict)
    buffers: Arrays = field(default_factory=dict)


class _Reached(Exception):
    """The run has come as far as it was to."""


class _Stand(TorchFunctionMode):
    """Stands in every call of a torch function: numbers it, and does it in another way where one is given."""

    def __init__(self, rerun: Rerun, ways: Mapping[int, Run], layers: list[str], *, located: bool = False) -> None:
        super().__init__()
        self._rerun, self._ways, self._layers, self._located = rerun, ways, layers, located
        self._count = 0

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = name_of(function)
        if name.startswith(("_set_", "set_")):
            # A mode of torch's, as no_grad sets it: to do that otherwise would outlast the run.
            return function(*args, **(kwargs or {}))
        number, self._count = self._count, self._count + 1
        arguments = arguments_of(function, args, kwargs or {})
        layer = self._layers[-1] if self._layers else ""
        self._rerun.numbers += sum(value.numel() for value in arguments.values() if isinstance(value, torch.Tensor))
        way = self._ways.get(number)
        result = function(*args, **(kwargs or {})) if way is None else way(function, arguments)
        line = _line() if self._located else ""
        self._rerun.operations.append(
            TorchOperation(number, name, arguments, layer, result=result, function=function, line=line)
        )
        return result


def _line() -> str:
    """The line of the model's own source that is running: the file's name, the line's number, and what it says."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_NOT_THE_MODELS):
        frame = frame.f_back  # type: ignore[assignment]
    if frame is None or not frame.f_code.co_filename.endswith(".py"):
        return ""
    said = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    said = said if len(said) <= _LONGEST_LINE else f"{said[:_LONGEST_LINE]}…"
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}: {said}" if said else ""


def rerun(
    side: TorchSide,
    inputs: Inputs,
    *,
    training: bool,
    until: str | None = None,
    ways: Mapping[int, Run] | None = None,
    steps: int = 1,
    watch: bool = False,
    located: bool = False,
) -> Rerun:
    """Run a fresh copy of torch's model.

    Args:
        side: torch's.
        inputs: as the model takes them.
        training: the mode.
        until: the call that it goes as far as, by its key; None for the whole model.
        ways: the operation's number → how it is done; a layer's call has one below zero. Of several steps, in each.
        steps: how many times the model is called.
        watch: write down every layer's call.
        located: say where in the model's source each operation is called.

    Raises:
        Exception: whatever the model, or an operation done in another way, raises.
    """
    done, layers, output = Rerun(), list[str](), None
    module = side.fresh(training)
    _follow(module, done, layers, until, ways or {}, watch=watch)
    with torch.random.fork_rng(devices=[]), side.in_precision(), torch.set_grad_enabled(torch.is_grad_enabled()):
        for _ in range(steps):
            *args, kwargs = side.tensors(inputs)
            done.operations.clear()
            done.layers.clear()
            try:
                with _Stand(done, ways or {}, layers, located=located):
                    output = module(*args, **kwargs)
            except _Reached:
                return done
    done.outputs = numpy_leaves(output)
    done.buffers = arrays_of(module)
    return done


@contextmanager
def instrumented(ways: Mapping[int, Run], *, located: bool = False) -> Iterator[list[TorchOperation]]:
    """Do operations in other ways in whatever of torch's is run meanwhile; gives all of them, in their order."""
    done = Rerun()
    with torch.set_grad_enabled(torch.is_grad_enabled()), _Stand(done, ways, [], located=located):
        yield done.operations


def _follow(
    module: nn.Module, done: Rerun, layers: list[str], until: str | None, ways: Mapping[int, Run], *, watch: bool
) -> None:
    """Keep the path of the module that runs in ``layers``, and end the run when the one that it goes to is done."""
    counts: dict[str, int] = {}
    running: list[RecordedCall] = []
    numbers: list[int] = []
    inside: list[int] = []

    def before(path: str, layer: nn.Module, args: Any, kwargs: Any) -> None:
        if inside:
            return
        layers.append(path)
        number = counts[path] = counts.get(path, -1) + 1
        numbers.append(-1 - len(done.layers))
        done.begun[numbers[-1]] = len(done.operations)
        arguments = {**{str(place): value for place, value in enumerate(args)}, **kwargs}
        done.layers.append(TorchOperation(numbers[-1], CALL, arguments, path, function=layer.forward))
        if f"{path}#{number}" == until or watch:
            done.started = len(done.operations)
            *positional, named = _kept((*args, kwargs))
            running.append(RecordedCall(path, number, tuple(positional), named))

    def after(layer: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
        if inside:
            return None
        path, number = layers.pop(), numbers.pop()
        started = done.layers[-1 - number]
        way = ways.get(number)
        if way is not None:
            inside.append(number)
            with torch._C.DisableTorchFunction():
                # What it gave already is not computed again.
                output = way(_given(layer, output, args), started.arguments)
            inside.pop()
        done.layers[-1 - number] = replace(started, result=output)
        if f"{path}#{counts[path]}" == until:
            done.call = running.pop()
            done.call.output = _kept(output)
            raise _Reached
        if watch:
            done.calls.append(running.pop())
            done.calls[-1].output = _kept(output)
        return None if way is None else output

    for path, layer in module.named_modules():
        if path:
            layer.register_forward_pre_hook(partial(before, path), with_kwargs=True)
            layer.register_forward_hook(after, with_kwargs=True)


def _given(layer: nn.Module, output: Any, args: tuple[Any, ...]) -> Any:
    """A layer as a function, which has been called once already."""

    def call(*given: Any, **named: Any) -> Any:
        same = len(given) == len(args) and all(a is b for a, b in zip(given, args, strict=True))
        return output if same else layer.forward(*given, **named)

    return call


def _kept(value: Any) -> Any:
    """A structure's tensors as tensors of their own, so that nothing changes them in place."""
    with torch._C.DisableTorchFunction():
        return rebuilt(value, lambda name, tensor: tensor.detach().clone())
