"""Write the calls of a path as statements of a torch module, under the script's names."""

from __future__ import annotations

import keyword
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from port.errors import UsageError
from port.scripts.observing.graph import Computation
from port.scripts.wording import place_of
from port.scripts.writing.capture import FilledTensor, LossPath, PathTensor, path_tensors
from port.scripts.writing.followed import needed_calls, outside
from port.scripts.writing.number_names import tensor_of_length
from port.scripts.writing.said_in_source import attribute, defaults_of, index_of, part_of, said_number, target_of

INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "matmul": "@", "__pow__": "**"}
REFLECTED = {"__rsub__": "-", "__rtruediv__": "/", "__rdiv__": "/", "__rpow__": "**"}
MOVES = {"torch.Tensor.to", "torch.Tensor.cuda", "torch.Tensor.cpu", "torch.amp.GradScaler.scale"}
"""Calls left out: they only move a batch to its device, or scale a loss for its gradients."""

RESERVED = {
    *("self", "F", "nn", "torch", "graphdef", "graphdefs", "masks", "model", "params", "rest", "state", "jax", "optax"),
    *("evaluated", "gradients", "joined", "moved", "only", "opt_state", "trained", "updates"),
}
"""Names that the module, or train_step around it, already uses."""

Varying = frozenset[tuple[int, int]]
Said = Mapping[tuple[int, int], str]
NOTHING: Said = {}


class PathWriter:
    """Assigns names to the inputs and outputs of a path's calls.

    Attributes:
        calls: the calls that are written, in order.
        inputs: name → value.
        descriptions: name → where it comes from.
        modules: names of the script's modules.

    Args:
        path: the path to a loss.
        varying: numbers that are inputs.
        ends: the numbers of the calls whose results are wanted; by default the last call.
        said: the script's names for the varying numbers, by index.
        trains: whether gradients flow through everything except what the script computes without gradients.
    """

    def __init__(
        self,
        path: LossPath,
        varying: Varying,
        ends: Sequence[int] = (),
        said: Said = NOTHING,
        *,
        trains: bool = True,
    ) -> None:
        self._varying, self._trains = varying, trains
        self._said = said
        self._numbers, self._lengths = path.numbers, path.lengths
        self._states = tuple(path.states)
        self._places = {call.number: place for place, call in enumerate(path.calls)}
        self._count = 0  # numbers among the current call's arguments so far
        self._all = {call.number: call for call in path.calls}
        needed = needed_calls(path.calls, outside(path.calls, path.lengths), ends)
        self.calls = [call for call in path.calls if call.number in needed and call.name not in MOVES]
        self.inputs: dict[str, torch.Tensor] = {}
        self.descriptions: dict[str, dict[str, Any]] = {}
        self.modules: list[str] = []
        self._names: dict[int, str] = {}
        self._input_names: dict[Any, str] = {}

    def statements(self) -> list[str]:
        """All statements, in order; among the inputs, numbers come last but for carried states."""
        written = [self.statement(call) for call in self.calls]
        others = [name for name in self.inputs if name not in self._states]
        others.sort(key=lambda name: bool(self.descriptions[name].get("number")))
        self.inputs = {name: self.inputs[name] for name in [*others, *self._states]}
        return written

    def statement(self, call: Computation) -> str:
        """Write a call as a statement: ``output = self.model(data)``."""
        self._count = 0
        written = self._expression(call)
        self._names[call.number] = self._free(target_of(call) or f"x{len(self._names) + 1}")
        return f"{self._names[call.number]} = {written}"

    def name(self, number: int) -> str:
        """The variable that holds a call's result."""
        return self._names[number]

    def part(self, number: int, path: str | None) -> str:
        """A part of a call's result."""
        return part_of(self._names[number], path)

    def _expression(self, call: Computation) -> str:
        positional, named = call.live if call.live is not None else ((), {})
        arguments = [self._value(one, call) for one in positional]
        defaults = defaults_of(call.name)
        written = {key: self._value(one, call) for key, one in named.items()}  # all are counted
        written = {key: said for key, said in written.items() if not isinstance(named[key], torch.device)}
        options = [f"{key}={said}" for key, said in written.items() if key not in defaults or said != defaults[key]]
        method = call.name.rpartition(".")[2]
        if call.kind == "module":
            root, *rest = call.name.split(".")
            if root not in self.modules:
                self.modules.append(root)
            written_call = f"{attribute(['self', root, *rest])}({', '.join([*arguments, *options])})"
            is_cut = self._trains and call.more.get("has_parameters") and not call.more.get("grad")
            return f"{written_call}.detach()" if is_cut else written_call
        if method in INFIX and len(arguments) == 2 and not options:
            return f"{arguments[0]} {INFIX[method]} {arguments[1]}"
        if method in REFLECTED and len(arguments) == 2:
            return f"{arguments[1]} {REFLECTED[method]} {arguments[0]}"
        if method == "neg":
            return f"-{arguments[0]}"
        if method == "__getitem__":
            return f"{arguments[0]}[{index_of(arguments[1], list(positional)[1])}]"
        if call.name.startswith("torch.Tensor."):
            return f"{arguments[0]}.{method}({', '.join([*arguments[1:], *options])})"
        if not call.name.startswith("torch."):
            raise UsageError(
                f"{place_of(call.where)}: {call.name} is a function of the script, which port does not write"
            )
        function = call.name.replace("torch.nn.functional.", "F.")
        return f"{function}({', '.join([*arguments, *options])})"

    def _value(self, value: Any, call: Computation) -> str:
        if isinstance(value, PathTensor):
            return self._tensor(value)
        if isinstance(value, FilledTensor):
            return f"torch.full_like({self._tensor(value.like)}, {said_number(value.value)})"
        if isinstance(value, list | tuple):
            inside = ", ".join(self._value(one, call) for one in value)
            return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' if len(value) == 1 else ''})"
        if isinstance(value, slice):
            parts = ["" if one is None else self._value(one, call) for one in (value.start, value.stop)]
            return ":".join(parts if value.step is None else [*parts, self._value(value.step, call)])
        if value is Ellipsis:
            return "..."
        if isinstance(value, int | float) and not isinstance(value, bool):
            self._count += 1
            if (length := self._length(call, self._count - 1)) is not None:
                return length
            if (self._places[call.number], self._count - 1) in self._varying:
                said = self._said.get((self._places[call.number], self._count - 1))
                name = self._free(said if said is not None and said.isidentifier() else "number")
                self.inputs[name] = torch.tensor(float(value))
                self.descriptions[name] = {"number": True, "expression": said}
                return name
            return said_number(value)
        if isinstance(value, dict):
            return f"{{{', '.join(f'{key!r}: {self._value(one, call)}' for key, one in value.items())}}}"
        if value is None or isinstance(value, bool | str | torch.dtype):
            return repr(value)
        if isinstance(value, torch.device):
            return repr(str(value))
        raise UsageError(
            f"{place_of(call.where)}: an argument of {call.name} is {type(value).__name__}, which has no source form"
        )

    def _length(self, call: Computation, place: int) -> str | None:
        """A number that the script reads from a tensor's shape; it differs for other batches."""
        known = {*self._names.values(), *self.inputs}
        texts = self._numbers.get(call.number, {}).get(place, frozenset())
        said = min((text for text in texts if tensor_of_length(text) in known), key=len, default=None)
        axis = self._lengths.get(call.number, {}).get(place)
        tensor = self._before_moves(axis.tensor) if axis is not None else None
        is_known = tensor is not None and (tensor.call in self._names or _key(tensor) in self._input_names)
        return f"{self._tensor(axis.tensor)}.size({axis.number})" if said is None and axis and is_known else said

    def _tensor(self, tensor: PathTensor) -> str:
        if "parameter" in tensor.description:
            root, *rest = tensor.description["parameter"].split(".")
            if root not in self.modules:
                self.modules.append(root)
            return attribute(["self", root, *rest])
        tensor = self._before_moves(tensor)
        if tensor.call is not None and tensor.call in self._names:
            return part_of(self._names[tensor.call], tensor.description.get("output"))
        return self._input(tensor)

    def _before_moves(self, tensor: PathTensor) -> PathTensor:
        """A tensor before it was moved to a device."""
        while tensor.call is not None and (call := self._all.get(tensor.call)) is not None and call.name in MOVES:
            (tensor,) = path_tensors(call.live)[:1]
        return tensor

    def _input(self, tensor: PathTensor) -> str:
        key = _key(tensor)
        if tensor.description.get("state") in self._states:
            assert tensor.value is not None
            self.inputs[tensor.description["state"]], self.descriptions[tensor.description["state"]] = (
                tensor.value,
                tensor.description,
            )
            return str(tensor.description["state"])
        if key not in self._input_names:
            name = tensor.variable or tensor.description.get("variable") or tensor.description.get("part") or ""
            kind = "batch" if "batch" in tensor.description else "input"
            self._input_names[key] = self._free(name if name.isidentifier() else f"{kind}_{len(self.inputs)}")
            assert tensor.value is not None
            self.inputs[self._input_names[key]] = tensor.value
            self.descriptions[self._input_names[key]] = {**tensor.description, "expression": tensor.expression}
        return self._input_names[key]

    def _free(self, name: str) -> str:
        taken = {*self._names.values(), *self.inputs, *self._states, *RESERVED}
        candidate, number = name, 2
        while candidate in taken or keyword.iskeyword(candidate):
            candidate, number = f"{name}_{number}", number + 1
        return candidate


def _key(tensor: PathTensor) -> tuple[Any, ...]:
    """The key that identifies an input."""
    return (
        tensor.call,
        tensor.description.get("output"),
        tensor.description.get("batch"),
        tensor.description.get("part"),
        tensor.variable,
    )
