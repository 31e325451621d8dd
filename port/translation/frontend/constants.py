"""Tensors that a run reads and that are neither inputs nor made by an operator: numbers, or state that hides."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from port.errors import NoPair
from port.parity.sides.copies import PART_OF_ANOTHER
from port.parity.sides.reachable import reached, registered
from port.translation.frontend.source_locations import assigned_at
from port.translation.ir import syntax
from port.translation.ir.expr import code
from port.translation.ir.graph import Graph, Value, each_value
from port.translation.ir.source_location import SourceLocation

_MOST_NUMBERS, _FEW = 256, 4
_DIGITS = 6
"""A number with more of them in float32 was computed or drawn; nobody wrote it."""


def constant(tensor: Any) -> syntax.Expr:
    """A tensor that the code made of numbers, as it is written.

    Raises:
        NoPair: it has too many numbers to be written.
    """
    if tensor.numel() > _MOST_NUMBERS:
        raise NoPair(f"a constant of {tensor.numel()} numbers: make it a buffer of the module (register_buffer)")
    dtype = code(f"jnp.{str(tensor.dtype).removeprefix('torch.').replace('bool', 'bool_')}")
    return code("jnp.array(numbers, dtype)", numbers=tensor.tolist(), dtype=dtype)


def made_in_forward(program: Any) -> set[str]:
    """Names of the constants that the run itself made of numbers, as ``torch.tensor([1.0, 2.0])`` does.

    Args:
        program: as it was exported; what tells them apart is gone once it is decomposed.
    """
    lifted = (node for node in program.graph.nodes if "lift_fresh" in str(node.target) and node.op == "call_function")
    return {argument.name for node in lifted for argument in node.all_input_nodes}


def held_names(module: Any) -> dict[Any, str]:
    """What tells the memory of a parameter or a buffer → its name in the module."""
    tensors = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    found: dict[Any, str] = {}
    for name, tensor in tensors:
        memory = memory_of(tensor)
        if memory is not None:
            found.setdefault(memory, name)
    return found


def memory_of(tensor: Any) -> Any:
    """What two tensors have in common that are the same numbers in the same memory; None where it cannot be said."""
    import torch

    if tensor.layout is not torch.strided or tensor.is_meta or not tensor.numel():
        return None
    return tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype


def check_constants(graph: Graph, module: Any, made: set[str]) -> None:
    """See that what is to stand in the source as numbers is numbers that a person would write.

    A tensor that was there before the run is state: of a module that torch does not know of, of a plain attribute, of
    a global. Only a few numbers, or short ones, may stand in the source.

    Args:
        graph: of the run.
        module: that was run.
        made: names of the constants that the run itself made.

    Raises:
        NoPair: there is such a tensor; says what it is, where it is read and where it was set.
    """
    readers: dict[Value, SourceLocation | None] = {}
    for step in graph.steps:
        for value in each_value([getattr(step, "arguments", ()), getattr(step, "keywords", ())]):
            readers.setdefault(value, getattr(step, "place", None))
    for value, tensor in graph.constants.items():
        if value in readers and tensor.is_meta:
            where = f"{readers[value]}: " if readers[value] is not None else ""
            raise NoPair(
                f"{where}the code makes a tensor of numbers on the model's device, as x[:, [-1]] does: on the meta "
                "device they are lost. Take a slice (x[:, -1:]), torch.arange, or translate the model with its numbers"
            )
        if value in readers and value.name not in made:
            _see(tensor, module, readers[value])


def _see(tensor: Any, module: Any, place: SourceLocation | None) -> None:
    where = f"{place}: " if place is not None else ""
    shape = "×".join(map(str, tensor.shape)) or "one number"
    for path, found in _tensors(reached(module)):
        if not _is_of(found, tensor):
            continue
        name = f"{type(module).__qualname__}{path}"
        if hasattr(found, PART_OF_ANOTHER):
            raise NoPair(
                f"{where}{name} ({shape}) is read, and lies in the memory of a parameter or a buffer"
                f"{_set_at(module, path)}: read that one in forward, and cut, turn or detach it there"
            )
        if found.requires_grad or _is_of_a_module(module, path, found):
            raise NoPair(
                f"{where}{name} ({shape}) is read, and torch does not know that {type(module).__qualname__} holds it"
                f"{_set_at(module, path)}: state_dict() and parameters() leave it out, so no checkpoint has it and no "
                "optimizer trains it; eval() and to() do not reach it. Hold what is in a list in an nn.ModuleList (or "
                "nn.ParameterList), in a dict in an nn.ModuleDict, and what a function uses in an attribute of its own"
            )
        if not is_written(tensor):
            raise NoPair(
                f"{where}{name} ({shape}) is read, and is neither a parameter nor a buffer{_set_at(module, path)}: no "
                "checkpoint has it. Make it an nn.Parameter, or a buffer (register_buffer)"
            )
        return
    if not is_written(tensor):
        raise NoPair(
            f"{where}a tensor ({shape}) is read that was there before forward ran, and that is neither a parameter nor "
            f"a buffer of {type(module).__qualname__}: no checkpoint has it. Make it an nn.Parameter, or a buffer "
            "(register_buffer)"
        )


@contextmanager
def told_what_is_written(module: Any) -> Iterator[None]:
    """Within it, a run that writes to hidden state is refused with the state's name.

    Raises:
        NoPair: it is.
    """
    try:
        yield
    except Exception as error:
        if "is mutated in the forward method" not in str(error):
            raise
        known = registered(module)
        hidden = [path for path, tensor in _tensors(reached(module)) if id(tensor) not in known]
        names = ", ".join(f"{type(module).__qualname__}{path}" for path in hidden[:3])
        raise NoPair(
            f"forward writes to a tensor that was there before, and that is neither a parameter nor a buffer"
            f"{f' ({names})' if names else ''}: no checkpoint has it. Make it a buffer (register_buffer), and hold "
            "modules so that torch knows them (nn.ModuleList, nn.ModuleDict)"
        ) from None


def is_written(tensor: Any) -> bool:
    """Whether a tensor holds numbers that a person would write into a source: few, or short."""
    import numpy as np

    if tensor.numel() <= _FEW or not tensor.is_floating_point():
        return bool(tensor.numel() <= _MOST_NUMBERS)
    if tensor.numel() > _MOST_NUMBERS:
        return False
    numbers = tensor.detach().flatten().float().cpu().numpy()
    return all(len(_digits(np.format_float_scientific(number))) <= _DIGITS for number in numbers)


def _digits(text: str) -> str:
    return text.partition("e")[0].lstrip("-").replace(".", "").strip("0")


def _tensors(things: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    import torch

    return ((path, thing) for path, thing in things if isinstance(thing, torch.Tensor))


def _is_of(found: Any, tensor: Any) -> bool:
    """Whether a tensor is the very memory that was read; export gives another object for it."""
    return found is tensor or (memory_of(tensor) is not None and memory_of(found) == memory_of(tensor))


def _is_of_a_module(module: Any, path: str, tensor: Any) -> bool:
    """Whether a tensor is a buffer of a module that hides, as running statistics are."""
    import torch

    hidden = (thing for _, thing in reached(module) if isinstance(thing, torch.nn.Module))
    return any(tensor is buffer for inner in hidden for buffer in vars(inner)["_buffers"].values())


def _set_at(module: Any, path: str) -> str:
    """Where the attribute was set by which the module reaches something, in words."""
    import re

    owner, name = module, ""
    for name in re.findall(r"\.(\w+)|\[(\w+)\]", path):
        name = name[0] or name[1]
        inner = vars(owner)["_modules"].get(name)
        if inner is None:
            break
        owner = inner
    place = assigned_at(type(owner), name) if name else None
    return f" (self.{name} is set at {place})" if place is not None else ""
