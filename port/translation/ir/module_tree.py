"""How the twin's attributes are reached: ``self.layer1.layers[0]`` for torch's ``layer1.0``."""

from __future__ import annotations

import keyword
import re
from typing import Any

from port.translation.ir import syntax
from port.translation.ir.idle_modules import idle_modules

Accessor = str | int
"""An attribute's name, or an index into a list or a dict."""


LAYERS = "layers"
"""The attribute in which a list of one's own holds its modules, as Flax's Sequential does."""


class ModuleTree:
    """The torch module's tree, and what each of its modules becomes.

    Attributes:
        root: the torch module.
        layers: paths of the layers kept whole.
        idle: paths of modules that give what they take, and are called as others that do something.
    """

    def __init__(self, root: Any, layers: dict[str, Any]) -> None:
        self.root, self.layers, self.idle = root, layers, idle_modules(root)
        self.modules = dict(root.named_modules(remove_duplicate=False))
        self._first: dict[int, str] = {}
        self._lists: dict[type, bool] = {}
        for path, module in self.modules.items():
            self._first.setdefault(id(module), path)

    def first_path(self, path: str) -> str:
        """The first path of a module: it may have several."""
        return self._first[id(self.modules[path])]

    def kind(self, path: str) -> str:
        """``"layer"``, ``"sequential"``, ``"list"``, ``"dict"``, or ``"class"`` for a class of one's own."""
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
        """Whether a class of one's own holds its modules in order, under numbers or names that count.

        It derives from torch's list or dict of modules: ``self.layers[0]`` stands for its ``denselayer1``.
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
        """The way from the root to a module: ``("layer1", "layers", 0)``."""
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
        """Flax's dotted path of a variable."""
        steps = (*self.steps(path), *self._inside(path, attribute))
        return ".".join(str(step).removeprefix("[").removesuffix("]") for step in steps)

    def _inside(self, path: str, attribute: str) -> tuple[Accessor, ...]:
        """The way from a module to a variable of its own."""
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
        """``self.…`` as seen from a module's own code; None if it is not beneath it."""
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
    """Whether a module's modules have numbers, or names that end in one, in order: ``layer1``, ``layer2``."""
    names = list(module._modules)
    parts = [_NUMBERED.fullmatch(name) for name in names]
    if hasattr(module, LAYERS) or not all(parts):
        return False
    found = [(part[1], int(part[2])) for part in parts if part is not None]
    return all(one == (found[0][0], found[0][1] + place) for place, one in enumerate(found))


_NUMBERED = re.compile(r"(\D*?)_?(\d+)")


def identifier(name: str) -> str:
    """A name that Python takes for an attribute: ``layer_0`` for ``0``."""
    cleaned = "".join(letter if letter.isalnum() or letter == "_" else "_" for letter in name)
    if not cleaned or cleaned[0].isdigit():
        cleaned = f"layer_{cleaned}"
    return f"{cleaned}_" if keyword.iskeyword(cleaned) else cleaned


def paths_above(path: str) -> list[str]:
    """``["layers", "layers.0"]`` for ``layers.0.norm``: the modules around one, but for the root."""
    parts = path.split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts))]


_STEP = re.compile(r"(\w+)|\[([^\[\]]+)\]")


def attribute_held(module: Any, text: str) -> Any:
    """``config.n_head``, or ``window[0]``, of a module; None where there is none."""
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
