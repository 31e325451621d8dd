"""Reads the weights of a TorchScript program (``torch.jit.save``): parameters and buffers. Nothing of it is run.

The program's source lists each class's parameters and buffers, in two lists of names.
"""

from __future__ import annotations

import ast
import re
from typing import Any

from port.weights.saved_objects import SavedTensor, Stub

_CLASS = re.compile(r"^class (\w+)\(Module\):$\s*__parameters__ = (\[.*?\])$\s*__buffers__ = (\[.*?\])$", re.M | re.S)


def program_state(root: Stub, code: dict[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a program's state dict, and its modules' other tensors, with the reason why they are not weights.

    Args:
        root: the outermost module, as it was unpickled.
        code: the source by file.

    Raises:
        ValueError: a class whose source is missing or invalid.
    """
    declared = _declared(code)
    state: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    pending = [("", root)]
    while pending:
        path, module = pending.pop(0)
        attributes = module.state if isinstance(module.state, dict) else {}
        for name, value in attributes.items():
            full = f"{path}{name}"
            if isinstance(value, Stub) and value.kind.startswith("__torch__."):
                pending.append((f"{full}.", value))
            elif isinstance(value, SavedTensor):
                if module.kind not in declared:
                    raise ValueError(f"the source of its class {module.kind} is missing")
                if name in declared[module.kind]:
                    state[full] = value
                else:
                    left_out[full] = "a tensor that the TorchScript program keeps: neither parameter nor buffer"
    return state, left_out


def _declared(code: dict[str, str]) -> dict[str, set[str]]:
    """Class → the names of its parameters and buffers."""
    found = {}
    for file, text in code.items():
        module = file.removeprefix("code/").removesuffix(".py").replace("/", ".")
        for name, parameters, buffers in _CLASS.findall(text):
            found[f"{module}.{name}"] = {*_names(parameters), *_names(buffers)}
    return found


def _names(text: str) -> list[str]:
    try:
        names = ast.literal_eval(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"a list of names in its source is invalid: {text:.60}") from error
    return [str(name) for name in names]
