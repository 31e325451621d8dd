"""The script's modules: how each was constructed, and the script's name for it."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.weak import WeakIdKeyDictionary

from port.scripts.observing.described import class_name, described, tensor_kind
from port.scripts.observing.lines import here, name_of, user_frames

WRAPPERS = {"DistributedDataParallel": "module", "DataParallel": "module", "OptimizedModule": "_orig_mod"}
"""Wrapper modules, and the attribute that holds the model."""


class KnownModels:
    """Modules by name; each of the script's models is reported once, when first needed.

    Args:
        tell: called with a description of each model.
    """

    def __init__(self, tell: Callable[[dict[str, Any]], None]) -> None:
        self._tell = tell
        self._constructed: Any = WeakIdKeyDictionary()
        self._names: dict[int, tuple[nn.Module, str, str]] = {}  # id → module, its root's name, its path there
        self._roots: dict[str, nn.Module] = {}
        self._parameters: dict[int, tuple[torch.Tensor, str]] = {}
        self._reported: set[str] = set()
        self._unnamed: set[str] = set()  # roots that no variable held when they were first needed

    def constructed(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Record a module under construction, with its arguments."""
        arguments = {
            "positional": [described(value) for value in args],
            "named": {key: described(value) for key, value in kwargs.items()},
        }
        self._constructed[module] = {"where": here(), "arguments": arguments}

    def name(self, module: nn.Module) -> str:
        """The script's name for a module: "model", "model.fc1"; reports its root if that is new."""
        root, path = self.place(module)
        return f"{root}.{path}" if path else root

    def place(self, module: nn.Module) -> tuple[str, str]:
        """The name of the script's module that a module belongs to, and its path in it."""
        if id(module) not in self._names or self._names[id(module)][0] is not module:
            self._find(module)
        _, root, path = self._names[id(module)]
        if root in self._unnamed and (name := name_of(self._roots[root], user_frames())) is not None:
            self._rename(root, _identifier(name))
            _, root, path = self._names[id(module)]
        self._report_once(root)
        return root, path

    def parameter_name(self, tensor: torch.Tensor) -> str | None:
        """A parameter's or buffer's name; None for any other tensor."""
        found = self._parameters.get(id(tensor))
        if found is None and isinstance(tensor, nn.Parameter):
            self._find_all()
            found = self._parameters.get(id(tensor))
        return found[1] if found is not None and found[0] is tensor else None

    def roots(self) -> Iterator[tuple[str, nn.Module]]:
        """The script's modules that belong to no other module, by name."""
        yield from self._roots.items()

    def weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Every parameter and buffer of all models, by name."""
        for tensor, name in self._parameters.values():
            if name.partition(".")[0] in self._roots:
                yield name, tensor

    def report_all(self) -> None:
        """Report every module with parameters."""
        self._find_all()
        for root in list(self._unnamed):
            self.place(self._roots[root])  # a variable may hold it by now
        for name, module in list(self._roots.items()):
            if any(True for _ in module.parameters()):
                self._report_once(name)

    def _find(self, module: nn.Module) -> None:
        self._find_all()
        if id(module) not in self._names or self._names[id(module)][0] is not module:
            self._take(module)  # not made by calling its class

    def _find_all(self) -> None:
        modules = [module for module in self._constructed if "_modules" in vars(module)]
        inner = {id(child) for module in modules for child in module.children()}
        for module in modules:
            if id(module) not in inner:
                self._take(module)

    def _take(self, module: nn.Module) -> None:
        """Name a module that belongs to no other, and the modules in it."""
        known = self._names.get(id(module))
        if known is not None and known[0] is module and known[2] == "":
            root = known[1]
        else:
            inner = [module, *held(module)]
            frames = user_frames()
            root = next((name for one in inner if (name := name_of(one, frames)) is not None), None) or next(
                (self._names[id(one)][1] for one in inner if id(one) in self._names and self._names[id(one)][0] is one),
                type(module).__name__,
            )
            root = _identifier(root)
            taken = self._roots.get(root)
            is_stateless = not any(True for one in (*module.parameters(), *module.buffers()))
            if taken is not None and not is_stateless and not any(one is taken for one in inner):
                number = 2
                while f"{root}{number}" in self._roots:
                    number += 1
                root = f"{root}{number}"
            if root.startswith(type(module).__name__) and not is_stateless:
                self._unnamed.add(root)
        if self._roots.get(root) is not module:
            self._reported.discard(root)
        self._roots[root] = module
        for path, one in module.named_modules(remove_duplicate=True):
            self._names[id(one)] = (one, root, _unwrapped(module, path))
        for path, tensor in (*module.named_parameters(), *module.named_buffers()):
            self._parameters[id(tensor)] = (tensor, f"{root}.{_unwrapped(module, path)}")

    def _rename(self, root: str, name: str) -> None:
        """Rename a module that was bound to a variable later: teacher = nn.Sequential(…).eval()."""
        self._unnamed.discard(root)
        if name in self._roots:
            return
        module = self._roots.pop(root)
        for one in [module, *module.modules()]:
            self._names.pop(id(one), None)
        if root in self._reported:
            self._reported.discard(root)
            self._tell({"name": root, "renamed": name})
        self._take(module)

    def _report_once(self, root: str) -> None:
        module = self._roots[root]
        if root in self._reported:
            return
        self._reported.add(root)
        wrapped = [module, *held(module)]
        core = wrapped[-1]
        cls = type(core)
        self._tell(
            {
                "name": root,
                "class": class_name(core),
                "defined": _definition(cls),
                "wrapped": [class_name(one) for one in wrapped[:-1]],
                "constructed": self._constructed.get(core),
                "training": core.training,
                "parameters": [
                    {"name": path, "kind": tensor_kind(tensor), "size": tensor.numel(), "trained": tensor.requires_grad}
                    for path, tensor in core.named_parameters()
                ],
                "buffers": [{"name": path, "kind": tensor_kind(tensor)} for path, tensor in core.named_buffers()],
                "groups": {path: size for path, one in core.named_modules() if (size := _part_of_processes(one))},
                "layers": {path: class_name(one) for path, one in core.named_modules() if path},
                "device": str(next((tensor.device for tensor in core.parameters()), "cpu")),
            }
        )


def _part_of_processes(module: nn.Module) -> int | None:
    """The number of processes over which a layer normalises, if not all."""
    group = getattr(module, "process_group", None)
    if not isinstance(module, nn.SyncBatchNorm) or group is None or not dist.is_initialized():
        return None
    size = dist.get_world_size(group)
    return size if size < dist.get_world_size() else None


def held(module: nn.Module) -> list[nn.Module]:
    """The modules that a wrapper holds, outermost first."""
    held: list[nn.Module] = []
    while (inside := WRAPPERS.get(type(module).__name__)) is not None and inside in module._modules:
        module = getattr(module, inside)
        held.append(module)
    return held


def unwrapped(module: nn.Module) -> nn.Module:
    """A model without its wrappers: DistributedDataParallel, torch.compile's."""
    return [module, *held(module)][-1]


def _identifier(name: str) -> str:
    """A variable's name as an identifier for written attributes; ``criteria["kind"]`` becomes criteria_kind."""
    return re.sub(r"\W+", "_", name.removeprefix("self.")).strip("_")


def _unwrapped(module: nn.Module, path: str) -> str:
    """A path without the wrappers' attribute names."""
    while (inside := WRAPPERS.get(type(module).__name__)) is not None and (
        path == inside or path.startswith(f"{inside}.")
    ):
        path, module = path[len(inside) + 1 :], getattr(module, inside)
    return path


def _definition(cls: type) -> dict[str, Any] | None:
    try:
        return {"file": os.path.abspath(inspect.getsourcefile(cls) or ""), "line": inspect.getsourcelines(cls)[1]}
    except (OSError, TypeError):
        return None
