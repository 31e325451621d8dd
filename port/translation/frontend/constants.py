"""Tensors that a run reads and that are neither inputs nor results: literal numbers, or state hidden from torch."""

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
"""A float32 number with more digits was computed or drawn; nobody wrote it by hand."""


def constant(tensor: Any) -> syntax.Expr:
    """Write a tensor as a literal, ``jnp.array([1.0, 2.0], jnp.float32)``.

    Raises:
        NoPair: the tensor has too many elements for a literal.
    """
    if tensor.numel() > _MOST_NUMBERS:
        raise NoPair(f"a constant of {tensor.numel()} numbers: make it a buffer of the module (register_buffer)")
    dtype = code(f"jnp.{str(tensor.dtype).removeprefix('torch.').replace('bool', 'bool_')}")
    return code("jnp.array(numbers, dtype)", numbers=tensor.tolist(), dtype=dtype)


def made_in_forward(program: Any) -> set[str]:
    """Return the names of the constants that forward itself creates, e.g. with ``torch.tensor([1.0, 2.0])``.

    Args:
        program: the exported program, before decomposition; that removes the operators which identify them.
    """
    lifted = (node for node in program.graph.nodes if "lift_fresh" in str(node.target) and node.op == "call_function")
    return {argument.name for node in lifted for argument in node.all_input_nodes}


def held_names(module: Any) -> dict[Any, str]:
    """Map the memory of each parameter and buffer, as `memory_of` describes it, to its name in the module."""
    tensors = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    found: dict[Any, str] = {}
    for name, tensor in tensors:
        memory = memory_of(tensor)
        if memory is not None:
            found.setdefault(memory, name)
    return found


def memory_of(tensor: Any) -> Any:
    """Return a key that is equal for tensors with the same elements in the same memory; None where there is none."""
    import torch

    if tensor.layout is not torch.strided or tensor.is_meta or not tensor.numel():
        return None
    return tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype


def check_constants(graph: Graph, module: Any, made: set[str]) -> None:
    """Check that every constant of a graph can be a literal in the source.

    A tensor that existed before the run is state: of a module that is not registered, of a plain attribute, or of a
    global. Only a few numbers, or short ones, may become a literal.

    Args:
        graph: the graph of the run.
        module: the module that was run.
        made: names of the constants that the run itself made.

    Raises:
        NoPair: a constant is hidden state; says what it is, where it is read and where it was set.
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
                "device they are lost. Use a slice (x[:, -1:]) or torch.arange, or translate the model with its weights"
            )
        if value in readers and value.name not in made:
            _check_constant(tensor, module, readers[value])


def _check_constant(tensor: Any, module: Any, place: SourceLocation | None) -> None:
    where = f"{place}: " if place is not None else ""
    shape = "×".join(map(str, tensor.shape)) or "one number"
    for path, found in _tensors(reached(module)):
        if not _is_of(found, tensor):
            continue
        name = f"{type(module).__qualname__}{path}"
        if hasattr(found, PART_OF_ANOTHER):
            raise NoPair(
                f"{where}{name} ({shape}) is read, and is a view of a parameter or a buffer{_set_at(module, path)}: "
                "read that parameter or buffer in forward, and slice, transpose or detach it there"
            )
        if found.requires_grad or _is_of_a_module(module, path, found):
            raise NoPair(
                f"{where}{name} ({shape}) is read, and torch does not know that {type(module).__qualname__} holds it"
                f"{_set_at(module, path)}: state_dict() and parameters() leave it out, so no checkpoint has it and no "
                "optimizer trains it; eval() and to() do not reach it. Replace a list by an nn.ModuleList (or "
                "nn.ParameterList), a dict by an nn.ModuleDict, and assign what a function uses to an attribute"
            )
        if not is_written(tensor):
            raise NoPair(
                f"{where}{name} ({shape}) is read, and is neither a parameter nor a buffer{_set_at(module, path)}: no "
                "checkpoint has it. Make it an nn.Parameter, or a buffer (register_buffer)"
            )
        return
    if not is_written(tensor):
        raise NoPair(
            f"{where}a tensor ({shape}) is read that existed before forward ran and is neither a parameter nor a "
            f"buffer of {type(module).__qualname__}: no checkpoint has it. Make it an nn.Parameter, or a buffer "
            "(register_buffer)"
        )


@contextmanager
def naming_hidden_writes(module: Any) -> Iterator[None]:
    """Turn torch.export's error for a write to hidden state into one that names the state, within the context.

    Raises:
        NoPair: the run writes to a tensor that is neither a parameter nor a buffer.
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
            f"forward writes to a tensor that existed before it ran and is neither a parameter nor a buffer"
            f"{f' ({names})' if names else ''}: no checkpoint has it. Make it a buffer (register_buffer), and hold "
            "modules so that torch knows them (nn.ModuleList, nn.ModuleDict)"
        ) from None


def is_written(tensor: Any) -> bool:
    """Whether a tensor holds numbers that a person would write as a literal: few, or with few digits."""
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
    """Whether a tensor is the one that was read; torch.export may return another object with the same memory."""
    return found is tensor or (memory_of(tensor) is not None and memory_of(found) == memory_of(tensor))


def _is_of_a_module(module: Any, path: str, tensor: Any) -> bool:
    """Whether a tensor is a buffer of an unregistered module, as running statistics are."""
    import torch

    hidden = (thing for _, thing in reached(module) if isinstance(thing, torch.nn.Module))
    return any(tensor is buffer for inner in hidden for buffer in vars(inner)["_buffers"].values())


def _set_at(module: Any, path: str) -> str:
    """Say where the attribute on a path was assigned, for a message; empty if that is unknown."""
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
