"""Where the written source says that parameters are not trained: at the highest place that holds no others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from port.mapping import between
from port.translation.ir import syntax
from port.translation.ir.expr import code
from port.translation.ir.module_tree import ModuleTree
from port.translation.structure.constructors import is_function

PARAM, FROZEN = "nnx.Param", "port.nn.Frozen"


@dataclass(frozen=True)
class WrittenVariable:
    """A variable of the written module.

    Attributes:
        owner: path of the torch module whose form makes it: a layer kept whole, or one's own.
        path: Flax's.
        is_frozen: whether torch does not train it.
    """

    owner: str
    path: str
    is_frozen: bool


class Freezing:
    """What of a model is frozen, and where that is said.

    A module with nothing to train is frozen where it is made, ``frozen(Backbone(…))``, a layer by its parameters'
    names, a parameter of one's own by its kind. What is frozen in some instances of a class and trained in others is
    said where each instance is made.

    Args:
        tree: of the modules.
        own: the parameters that are the modules' own and are written: the module's path and the name.
    """

    def __init__(self, tree: ModuleTree, own: Iterable[tuple[str, str]]) -> None:
        self.tree = tree
        self.variables = _variables(tree, own)
        self.all_frozen, self.names = cache(self._all_frozen), cache(self._names)
        self.group: dict[str, Sequence[str]] = {}

    def take_classes(self, classes: Iterable[Sequence[str]]) -> None:
        """Tell it the paths of the modules that are written as classes, those of one class together."""
        self.group = {path: members for members in classes for path in members}

    def construction(self, path: str, made: syntax.Expr | None) -> syntax.Expr | None:
        """What makes the module at a path, frozen as far as nothing above it or inside it says so."""
        if not path or made is None or not self._is_said_inside(self._class_around(_above(path))):
            return made
        if self.all_frozen(path):
            said = self.all_frozen(_above(path)) or self._says_it_itself(path)
            return made if said else code("port.nn.frozen(made)", made=made)
        if self.tree.kind(path) == "layer" or self._differs(path):
            names = tuple(map(syntax.Const, self.names(path)))
            return syntax.Call(code("port.nn.frozen"), (made, *names)) if names else made
        return made

    def kind(self, path: str, name: str) -> str:
        """The class of variable that a module's own parameter is written as."""
        target = self.tree.flax_path(path, name)
        if not any(held.path == target and held.is_frozen for held in self.variables):
            return PARAM
        above = self._class_around(path)
        if above == path:
            inside = self._says_it_itself(path) or (self._is_said_inside(path) and not self.all_frozen(path))
        else:
            inside = self._is_said_inside(above) and not self.all_frozen(path)
        return FROZEN if inside else PARAM

    @property
    def is_whole(self) -> bool:
        """Whether the whole model is frozen, and says so at the end of its constructor."""
        return self.all_frozen("") and not self._says_it_itself("")

    def _all_frozen(self, path: str) -> bool:
        beneath = [held.is_frozen for held in self.variables if _is_beneath(held.owner, path)]
        return bool(beneath) and all(beneath)

    def _names(self, path: str) -> tuple[str, ...]:
        """What is frozen beneath a module, as seen from it: whole modules, and single parameters."""
        start = self.tree.flax_path(path, "")
        own = [held for held in self.variables if held.owner == path]
        found = list(dict.fromkeys(_shortest(held.path, start, own) for held in own if held.is_frozen))
        if path not in self.tree.layers:
            for name in self.tree.modules[path]._modules:
                child = f"{path}.{name}" if path else name
                if self.all_frozen(child):
                    found.append(self.tree.flax_path(child, ""))
                elif child in self.tree.modules:
                    found += [f"{self.tree.flax_path(child, '')}.{inner}" for inner in self.names(child)]
        return tuple(name.removeprefix(f"{start}.") for name in found)

    def _differs(self, path: str) -> bool:
        """Whether the instances of a module's class are frozen in different parts."""
        members = self.group.get(path, ())
        return len({self.names(member) for member in members if not self.all_frozen(member)}) > 1

    def _is_said_inside(self, path: str) -> bool:
        """Whether a class says by itself what is frozen of it; else it is said where it is made."""
        return not self.all_frozen(path) and not self._differs(path)

    def _says_it_itself(self, path: str) -> bool:
        """Whether all that a class ever holds are frozen parameters of its own, and nothing around it is frozen."""
        members = self.group.get(path, ())
        return bool(members) and all(
            self.all_frozen(member)
            and all(held.owner == member for held in self.variables if _is_beneath(held.owner, member))
            and (not member or self._is_said_inside(self._class_around(_above(member))))
            and (not member or not self.all_frozen(_above(member)))
            for member in members
        )

    def _class_around(self, path: str) -> str:
        """The innermost class that a module is, or stands in."""
        while path and path not in self.group:
            path = _above(path)
        return path


def _variables(tree: ModuleTree, own: Iterable[tuple[str, str]]) -> list[WrittenVariable]:
    parameters = dict(tree.root.named_parameters(remove_duplicate=False))
    if all(parameter.requires_grad for parameter in parameters.values()):
        return []
    found = []
    for path, name in own:
        parameter = parameters[f"{path}.{name}" if path else name]
        found.append(WrittenVariable(path, tree.flax_path(path, name), not parameter.requires_grad))
    for path, layer in tree.layers.items():
        if not layer.state_dict() or is_function(layer):
            continue
        beneath = tree.flax_path(path, "")
        theirs = dict(layer.named_parameters(remove_duplicate=False))
        for entry in between(torch=layer).entries:
            if entry.collection == "params":
                is_frozen = is_all_frozen(theirs.get(source) for source in entry.sources)
                found += [WrittenVariable(path, f"{beneath}.{target}", is_frozen) for target in entry.targets]
    return found


def is_all_frozen(parameters: Iterable[Any]) -> bool:
    """Whether these are parameters, and torch trains none of them."""
    known = list(parameters)
    return all(parameter is not None and not parameter.requires_grad for parameter in known)


def _shortest(path: str, start: str, held: list[WrittenVariable]) -> str:
    """The highest place within a layer, around one of its variables, beneath which all are frozen."""
    name = start
    for part in path.removeprefix(f"{start}.").split("."):
        name = f"{name}.{part}" if name else part
        if all(other.is_frozen for other in held if _is_beneath(other.path, name)):
            break
    return name


def _is_beneath(path: str, above: str) -> bool:
    return not above or f"{path}.".startswith(f"{above}.")


def _above(path: str) -> str:
    return path.rpartition(".")[0]
