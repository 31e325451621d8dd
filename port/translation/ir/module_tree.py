"""Paths in the generated module: ``self.layer1.layers[0]`` for torch's ``layer1.0``."""

from __future__ import annotations

import keyword
import re
from typing import Any

from port.translation.ir import syntax
from port.translation.ir.idle_modules import idle_modules

Accessor = str | int
"""An attribute's name, or an index into a list or a dict."""


LAYERS = "layers"
"""The attribute in which a user's list class holds its modules, as in Flax's Sequential."""


class ModuleTree:
    """The torch module's tree, and the form of each module in Flax.

    Attributes:
        root: the torch module.
        layers: path → leaf layer.
        idle: paths of identities that are emitted as calls: see `idle_modules`.
    """

    def __init__(self, root: Any, layers: dict[str, Any]) -> None:
        self.root, self.layers, self.idle = root, layers, idle_modules(root)
        self.modules = dict(root.named_modules(remove_duplicate=False))
        self._first: dict[int, str] = {}
        self._lists: dict[type, bool] = {}
        for path, module in self.modules.items():
            self._first.setdefault(id(module), path)

    def first_path(self, path: str) -> str:
        """Return the first path of a module that may have several."""
        return self._first[id(self.modules[path])]

    def kind(self, path: str) -> str:
        """Return ``"layer"``, ``"sequential"``, ``"list"``, ``"dict"``, or ``"class"`` for a user's class."""
        import torch

        module = self.modules[path]
        if not path:
            return "class"
        if path in self.layers:
            return "layer"
        if isinstance(module, torch.nn.Sequential) and type(module).forward is torch.nn.Sequential.forward:
            return "sequential"
        if type(module) in (torch.nn.ModuleList, torch.nn.ParameterList):
            return "list"
        if type(module) in (torch.nn.ModuleDict, torch.nn.ParameterDict):
            return "dict"
        return "class"

    def is_list(self, path: str) -> bool:
        """Whether a user's class derives from torch's ModuleList or ModuleDict and numbers its children.

        Its children are numbered if their names are, or end in, consecutive numbers: ``self.layers[0]`` is the twin of
        ``denselayer1``.
        """
        import torch

        cls = type(self.modules[path])
        if not issubclass(cls, torch.nn.ModuleList | torch.nn.ModuleDict) or self.kind(path) != "class":
            return False
        if cls not in self._lists:
            instances = [module for module in self.modules.values() if type(module) is cls]
            self._lists[cls] = all(map(_counts, instances))
        return self._lists[cls]

    def steps(self, path: str) -> tuple[Accessor, ...]:
        """Return the path from the root to a module in Flax: ``("layer1", "layers", 0)``."""
        way: tuple[Accessor, ...] = ()
        above = ""
        for name in path.split(".") if path else ():
            match self.kind(above):
                case "sequential":
                    way += ("layers", list(self.modules[above]._modules).index(name))
                case "list":
                    way += (int(name),)
                case "dict":
                    way += (f"[{name}]",)
                case _ if self.is_list(above):
                    way += (LAYERS, list(self.modules[above]._modules).index(name))
                case _:
                    way += (identifier(name),)
            above = f"{above}.{name}" if above else name
        return way

    def flax_path(self, path: str, attribute: str) -> str:
        """Return Flax's dotted path of a variable."""
        steps = (*self.steps(path), *self._inside(path, attribute))
        return ".".join(str(step).removeprefix("[").removesuffix("]") for step in steps)

    def _inside(self, path: str, attribute: str) -> tuple[Accessor, ...]:
        """Return the path from a module to one of its variables."""
        if not attribute:
            return ()
        match self.kind(path):
            case "list":
                return (int(attribute),)
            case "dict":
                return (f"[{attribute}]",)
            case "layer":
                return tuple(int(step) if step.isdigit() else step for step in attribute.split("."))
        return (identifier(attribute),)

    def reach(self, scope: str, path: str, attribute: str) -> syntax.Expr | None:
        """Return the expression ``self.…`` by which a module's code reaches a variable; None if it is not inside it."""
        here, there = self.steps(scope), self.steps(path)
        if scope and not f"{path}.".startswith(f"{scope}."):
            return None
        made: syntax.Expr = syntax.Name("self")
        for step in (*there[len(here) :], *self._inside(path, attribute)):
            if isinstance(step, int):
                made = syntax.Subscript(made, syntax.Const(step))
            elif step.startswith("["):
                made = syntax.Subscript(made, syntax.Const(step[1:-1]))
            else:
                made = syntax.Attribute(made, step)
        return made


def _counts(module: Any) -> bool:
    """Whether the names of a module's children are, or end in, consecutive numbers: ``layer1``, ``layer2``."""
    names = list(module._modules)
    parts = [_NUMBERED.fullmatch(name) for name in names]
    if hasattr(module, LAYERS) or not all(parts):
        return False
    found = [(part[1], int(part[2])) for part in parts if part is not None]
    return all(one == (found[0][0], found[0][1] + place) for place, one in enumerate(found))


_NUMBERED = re.compile(r"(\D*?)_?(\d+)")


def identifier(name: str) -> str:
    """Turn a name into a valid attribute name: ``layer_0`` for ``0``."""
    cleaned = "".join(letter if letter.isalnum() or letter == "_" else "_" for letter in name)
    if not cleaned or cleaned[0].isdigit():
        cleaned = f"layer_{cleaned}"
    return f"{cleaned}_" if keyword.iskeyword(cleaned) else cleaned


def paths_above(path: str) -> list[str]:
    """Return a module's ancestors except the root: ``["layers", "layers.0"]`` for ``layers.0.norm``."""
    parts = path.split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts))]


_STEP = re.compile(r"(\w+)|\[([^\[\]]+)\]")


def attribute_held(module: Any, text: str) -> Any:
    """Return a module's ``config.n_head`` or ``window[0]``; None if it does not exist."""
    value = module
    for name, item in _STEP.findall(text):
        if name:
            held = vars(value) if hasattr(value, "__dict__") else {}
            if name not in held:
                return None
            value = held[name]
        elif isinstance(value, tuple | list | dict):
            try:
                value = value[int(item) if item.lstrip("-").isdigit() else item[1:-1]]
            except (LookupError, TypeError):
                return None
        else:
            return None
    return value
