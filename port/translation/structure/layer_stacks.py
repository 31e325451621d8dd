"""Lists of equal layers that code goes through, each of which is to be one stack: where they are in a program."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from port.translation.ir import syntax
from port.translation.ir.module_tree import LAYERS, ModuleTree
from port.translation.structure.class_merge import FoldedClass
from port.translation.structure.methods import each_function
from port.translation.structure.program import Program
from port.translation.structure.scanned_calls import CannotScan, with_scans
from port.translation.structure.written_body import Body


@dataclass(frozen=True)
class LayerStack:
    """A list of layers that is to be one.

    Attributes:
        owner: name of the class whose call goes through it.
        held: how that reads it: ``self.layers``.
    """

    owner: str
    held: syntax.Expr

    def __str__(self) -> str:
        return f"{syntax.source(self.held)} of {self.owner}"


@dataclass(frozen=True)
class LayerList:
    """A list of layers in a model.

    Attributes:
        path: of it in the original.
        beneath: Flax's dotted path of the list, and of the stack in its place.
        item: what stands before the number of a layer in Flax's paths.
        count: of the layers.
    """

    path: str
    beneath: str
    item: str
    count: int


def layer_stacks(program: Program) -> list[LayerStack]:
    """Lists that may be stacks: two layers or more of one class, through which a call goes; the outermost first."""
    found = []
    for made in program.classes:
        for held, is_sequential in dict.fromkeys(_gone_through(made.body)):
            lists = _lists(program.tree, made.members, held, is_sequential=is_sequential)
            if lists and all(_is_of_one_class(program, each) for each in lists):
                found.append(LayerStack(made.name, held))
    return list(dict.fromkeys(reversed(found)))


def lists_of(program: Program, stacks: Collection[LayerStack]) -> list[LayerList]:
    """The lists of a model that are stacks; those inside others first."""
    found = {}
    for stack in stacks:
        members = [path for made in program.classes if made.name == stack.owner for path in made.members]
        for is_sequential in (False, True):
            for each in _lists(program.tree, members, stack.held, is_sequential=is_sequential):
                found[each.path] = each
    return sorted(found.values(), key=lambda each: -each.item.count("."))


def with_stacks(program: Program, stacks: Collection[LayerStack]) -> Program:
    """A program that makes stacks of lists, and scans them.

    Raises:
        CannotScan: a loop that is no scan; says why.
    """
    if not stacks:
        return program
    held: dict[str, list[syntax.Expr]] = {}
    for stack in stacks:
        held.setdefault(stack.owner, []).append(stack.held)
    classes = tuple(_with_stacks(made, held.get(made.name, ()), program) for made in program.classes)
    return replace(program, classes=classes, also=tuple(with_stacks(other, stacks) for other in program.also))


def _with_stacks(made: FoldedClass, held: Collection[syntax.Expr], program: Program) -> FoldedClass:
    if not held or made.body is None:
        return made
    of = {each: _class_of_items(made, each, program) for each in held}
    body = each_function(made.body, lambda _, body: with_scans(body, of))
    return replace(made, body=body, stacked=tuple(held))


def _class_of_items(made: FoldedClass, held: syntax.Expr, program: Program) -> str:
    """The class of a list's layers, as it is written; ``Any`` for a library's."""
    names = {path: each.name for each in program.classes for path in each.members}
    for is_sequential in (False, True):
        for each in _lists(program.tree, made.members, held, is_sequential=is_sequential):
            return names.get(_items(program.tree, each)[0], "Any")
    return "Any"


def _gone_through(body: Body | None) -> Iterator[tuple[syntax.Expr, bool]]:
    """What the code of a class goes through, or calls, of what it holds; and whether it calls it."""
    if body is None:
        return
    for node in syntax.walk(*body.statements, body.returns):
        match node:
            case syntax.For(_, held) if _is_held(held):
                yield held, False
            case syntax.Call(held, (_,), ()) if _is_held(held):
                yield held, True


def _is_held(expression: syntax.Expr) -> bool:
    """Whether it is a chain from ``self``: ``self.encoder.layers``, ``self.parts["layers"]``."""
    match expression:
        case syntax.Attribute(value) | syntax.Subscript(value, syntax.Const()):
            return value == syntax.Name("self") or _is_held(value)
    return False


def _lists(tree: ModuleTree, members: Iterable[str], held: syntax.Expr, *, is_sequential: bool) -> list[LayerList]:
    """The lists that code of some instances reads so."""
    kind, inside = ("sequential", f".{LAYERS}") if is_sequential else ("list", "")
    found = []
    for member in members:
        for path, module in tree.modules.items():
            if tree.kind(path) != kind or len(module) < 1 or tree.reach(member, path, "") != held:
                continue
            beneath = tree.flax_path(path, "")
            found.append(LayerList(path, beneath, f"{beneath}{inside}", len(module)))
    return found


def _items(tree: ModuleTree, held: LayerList) -> list[str]:
    return [f"{held.path}.{name}" for name in tree.modules[held.path]._modules]


def _is_of_one_class(program: Program, held: LayerList) -> bool:
    """Whether a list holds two layers or more of one written class, or of one of a library's."""
    names = {path: made.name for made in program.classes for path in made.members}
    modules = program.tree.modules
    kinds = {names.get(path, type(modules[path])) for path in _items(program.tree, held)}
    return held.count > 1 and len(kinds) == 1


__all__ = ["CannotScan", "LayerList", "LayerStack", "layer_stacks", "lists_of", "with_stacks"]
