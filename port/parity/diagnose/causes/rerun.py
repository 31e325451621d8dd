"""Run torch's model again, up to one of its layers, with some operations computed in another way."""

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
"""The source folders of torch and of this package."""
_LONGEST_LINE = 80
CALL = "call"
"""The operation name of a layer call."""


@dataclass
class Rerun:
    """The result of a run.

    Attributes:
        operations: its operations in order, those inside the layer included.
        layers: the layer calls as operations, numbered down from −1, in the order in which they began.
        begun: the number of a layer call → how many operations there were before it.
        call: the layer call at which it stopped; None for a whole run.
        calls: all layer calls in the order in which they finished; for a whole run, if requested.
        numbers: how many numbers its operations took as input.
        started: how many operations there were before that call.
        outputs: the model's outputs; for a whole run.
        buffers: the model's state dict afterwards; for a whole run.
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
    """The run has reached its last layer."""


class _Stand(TorchFunctionMode):
    """Intercept every call of a torch function: number it, and compute it in another way if there is one."""

    def __init__(self, rerun: Rerun, ways: Mapping[int, Run], layers: list[str], *, located: bool = False) -> None:
        super().__init__()
        self._rerun, self._ways, self._layers, self._located = rerun, ways, layers, located
        self._count = 0

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = name_of(function)
        if name.startswith(("_set_", "set_")):
            # One of torch's modes, such as no_grad: a change of it would outlast the run.
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
    """Return the running line of the model's own source: file name, line number, and text."""
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
        side: torch's side.
        inputs: the model's inputs.
        training: the mode.
        until: the key of the call at which to stop; None for the whole model.
        ways: the operation's number → how it is computed; layer calls have negative numbers. They apply in all steps.
        steps: how many times the model is called.
        watch: whether to record every layer call.
        located: whether to record where in the model's source each operation is called.

    Raises:
        Exception: whatever the model, or a changed operation, raises.
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
    """Compute torch operations in other ways in this context; yields all operations, in order."""
    done = Rerun()
    with torch.set_grad_enabled(torch.is_grad_enabled()), _Stand(done, ways, [], located=located):
        yield done.operations


def _follow(
    module: nn.Module, done: Rerun, layers: list[str], until: str | None, ways: Mapping[int, Run], *, watch: bool
) -> None:
    """Track the path of the running module in ``layers``, and end the run when the last layer is done."""
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
                # Its result exists already; do not compute it again.
                output = way(_as_function(layer, output, args), started.arguments)
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


def _as_function(layer: nn.Module, output: Any, args: tuple[Any, ...]) -> Any:
    """Return a layer as a function that has been called once already."""

    def call(*values: Any, **named: Any) -> Any:
        same = len(values) == len(args) and all(a is b for a, b in zip(values, args, strict=True))
        return output if same else layer.forward(*values, **named)

    return call


def _kept(value: Any) -> Any:
    """Copy a structure's tensors, so that nothing changes them in place."""
    with torch._C.DisableTorchFunction():
        return rebuilt(value, lambda name, tensor: tensor.detach().clone())
