"""Find where the written source marks parameters as frozen: at the highest module that holds only frozen ones."""

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
        owner: path of the torch module that creates it: a layer kept whole, or a user's module.
        path: Flax's path.
        is_frozen: whether torch does not train it.
    """

    owner: str
    path: str
    is_frozen: bool


class Freezing:
    """The frozen parts of a model, and where the source marks them.

    A module with nothing to train is frozen where it is constructed, ``frozen(Backbone(…))``, a layer by parameter
    names, a module's own parameter by its variable type. What is frozen in some instances of a class and trained in
    others is marked where each instance is constructed.

    Args:
        tree: the module tree.
        own: the modules' own parameters that are written: module path and name.
    """

    def __init__(self, tree: ModuleTree, own: Iterable[tuple[str, str]]) -> None:
        self.tree = tree
        self.variables = _variables(tree, own)
        self.all_frozen, self.names = cache(self._all_frozen), cache(self._names)
        self.group: dict[str, Sequence[str]] = {}

    def take_classes(self, classes: Iterable[Sequence[str]]) -> None:
        """Set the paths of the modules that are written as classes, grouped by class."""
        self.group = {path: members for members in classes for path in members}

    def construction(self, path: str, made: syntax.Expr | None) -> syntax.Expr | None:
        """The construction of the module at a path, marked as frozen where nothing above or inside it does so."""
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
        """The variable type of a module's own parameter."""
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
        """Whether the whole model is frozen, which the end of its constructor then states."""
        return self.all_frozen("") and not self._says_it_itself("")

    def _all_frozen(self, path: str) -> bool:
        beneath = [held.is_frozen for held in self.variables if _is_beneath(held.owner, path)]
        return bool(beneath) and all(beneath)

    def _names(self, path: str) -> tuple[str, ...]:
        """The frozen parts below a module, relative to it: whole modules, and single parameters."""
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
        """Whether a class itself states what is frozen in it; else that is stated where it is constructed."""
        return not self.all_frozen(path) and not self._differs(path)

    def _says_it_itself(self, path: str) -> bool:
        """Whether a class holds nothing but frozen parameters of its own, and nothing around it is frozen."""
        members = self.group.get(path, ())
        return bool(members) and all(
            self.all_frozen(member)
            and all(held.owner == member for held in self.variables if _is_beneath(held.owner, member))
            and (not member or self._is_said_inside(self._class_around(_above(member))))
            and (not member or not self.all_frozen(_above(member)))
            for member in members
        )

    def _class_around(self, path: str) -> str:
        """The innermost class that a module is, or belongs to."""
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
    """The highest part of a layer around one of its variables below which all variables are frozen."""
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
