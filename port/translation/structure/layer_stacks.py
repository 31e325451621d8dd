"""Find lists of equal layers in a program that can become stacks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from port.translation.ir import syntax
from port.translation.ir.module_tree import LAYERS, ModuleTree
from port.translation.structure.class_merge import FoldedClass
from port.translation.structure.layer_stack import LayerStack
from port.translation.structure.methods import each_function
from port.translation.structure.program import Program
from port.translation.structure.scanned_calls import CannotScan, with_scans
from port.translation.structure.written_body import Body


@dataclass(frozen=True)
class LayerList:
    """A list of layers in a model, with a run that forms a stack.

    Attributes:
        path: the list's path in the original.
        beneath: Flax's dotted path of the list.
        item: the prefix of a layer's number in Flax's paths if all layers are separate.
        count: number of layers.
        before: number of layers before the run.
        after: number of layers after it.
    """

    path: str
    beneath: str
    item: str
    count: int
    before: int = 0
    after: int = 0

    @property
    def stack(self) -> str:
        """Flax's dotted path of the stack."""
        return f"{self.beneath}.{self.before}" if self.before or self.after else self.beneath

    @property
    def run(self) -> range:
        """The numbers of the layers in the stack."""
        return range(self.before, self.count - self.after)

    def path_of(self, number: int) -> str:
        """Flax's dotted path of a layer; for a layer of the run, that of the stack."""
        if number in self.run:
            return self.stack
        return f"{self.beneath}.{number if number < self.before else number - len(self.run) + 1}"

    def inside(self, path: str) -> tuple[int, str] | None:
        """Split one of Flax's paths into the layer's number and the rest of the path; None outside the list."""
        number, _, rest = path.removeprefix(f"{self.item}.").partition(".")
        return (int(number), rest) if path.startswith(f"{self.item}.") and number.isdigit() and rest else None


def layer_stacks(program: Program, *, zeros_apart: bool = False) -> list[LayerStack]:
    """Find the lists that a call traverses and that contain a run of at least two equal layers; outermost first.

    Args:
        program: the model.
        zeros_apart: whether a number that is 0 in one layer and not in another makes their structures differ.
    """
    found = []
    for made in program.classes:
        ways: dict[syntax.Expr, list[_Way]] = defaultdict(list)
        for way in dict.fromkeys(_gone_through(made.body)):
            ways[way.held].append(way)
        for held, (way, *others) in ways.items():
            lists = _lists(program.tree, made.members, held, is_sequential=way.is_called)
            runs = {_longest_run(program, each, way.start, zeros_apart=zeros_apart) for each in lists}
            if not others and len(runs) == 1 and (run := runs.pop()) is not None:
                found.append(LayerStack(made.name, held, *run))
    return list(reversed(found))


def lists_of(program: Program, stacks: Collection[LayerStack]) -> list[LayerList]:
    """The lists of a model that have stacks, inner lists first."""
    found = {}
    for stack in stacks:
        members = [path for made in program.classes if made.name == stack.owner for path in made.members]
        for is_sequential in (False, True):
            for each in _lists(program.tree, members, stack.held, is_sequential=is_sequential):
                found[each.path] = replace(each, before=stack.before, after=stack.after)
    return sorted(found.values(), key=lambda each: -each.item.count("."))


def stack_paths(lists: Collection[LayerList]) -> tuple[str, ...]:
    """Flax's paths of the stacks of a model's lists, inner stacks first."""
    found: dict[str, None] = {}
    for held in lists:
        path = held.stack
        for around in lists:
            if (place := around.inside(path)) is not None:
                path = f"{around.path_of(place[0])}.{place[1]}"
        found[path] = None
    return tuple(found)


def with_stacks(program: Program, stacks: Collection[LayerStack]) -> Program:
    """Replace lists by stacks, and loops over them by scans.

    Raises:
        CannotScan: a loop has no scan form; the message says why.
    """
    if not stacks:
        return program
    of = {name: tuple(each for each in stacks if each.owner == name) for name in {each.owner for each in stacks}}
    runs = [(_items(program.tree, each), each.run) for each in lists_of(program, stacks)]
    inside = [layers[number] for layers, run in runs for number in run]
    classes = tuple(
        replace(_with_stacks(made, of.get(made.name, ()), program), is_scanned=_are_inside(made.members, inside))
        for made in program.classes
    )
    return replace(program, classes=classes, also=tuple(with_stacks(other, stacks) for other in program.also))


def _are_inside(members: Collection[str], layers: Collection[str]) -> bool:
    """Whether instances are all layers of stacks, or inside such layers."""
    return bool(members) and all(any(f"{path}.".startswith(f"{layer}.") for layer in layers) for path in members)


def _with_stacks(made: FoldedClass, stacks: tuple[LayerStack, ...], program: Program) -> FoldedClass:
    if not stacks or made.body is None:
        return made
    kinds = {stack.held: _class_of_run(made, stack, program) for stack in stacks}
    body = each_function(made.body, lambda _, body: with_scans(body, stacks, kinds))
    return replace(made, body=body, stacked=stacks)


def _class_of_run(made: FoldedClass, stack: LayerStack, program: Program) -> str:
    """The written class of a stack's layers; ``Any`` for a library's."""
    names = {path: each.name for each in program.classes for path in each.members}
    for is_sequential in (False, True):
        for each in _lists(program.tree, made.members, stack.held, is_sequential=is_sequential):
            return names.get(_items(program.tree, each)[stack.before], "Any")
    return "Any"


@dataclass(frozen=True)
class _Way:
    """A traversal of a list in code.

    Attributes:
        held: how the code reads the list.
        is_called: whether the list is called as a Sequential.
        start: the first layer of the traversal.
    """

    held: syntax.Expr
    is_called: bool = False
    start: int = 0


def _gone_through(body: Body | None) -> Iterator[_Way]:
    """The lists that a class's code traverses."""
    if body is None:
        return
    for node in syntax.walk(*body.statements, body.returns):
        match node:
            case syntax.For(_, held) if _is_held(held):
                yield _Way(held)
            case syntax.For(_, syntax.Subscript(held, syntax.Slice(syntax.Const(int(start)), None, None))) if _is_held(
                held
            ):
                yield _Way(held, start=start)
            case syntax.Call(held, (_,), ()) if _is_held(held):
                yield _Way(held, is_called=True)


def _is_held(expression: syntax.Expr) -> bool:
    """Whether an expression is a chain of attributes and items from ``self``: ``self.parts["layers"]``."""
    match expression:
        case syntax.Attribute(value) | syntax.Subscript(value, syntax.Const()):
            return value == syntax.Name("self") or _is_held(value)
    return False


def _lists(tree: ModuleTree, members: Iterable[str], held: syntax.Expr, *, is_sequential: bool) -> list[LayerList]:
    """The lists that the code of some instances reads by this expression."""
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


def _longest_run(
    program: Program, held: LayerList, start: int = 0, *, zeros_apart: bool = False
) -> tuple[int, int] | None:
    """The number of layers before and after the longest run of equal layers; None if no run has two layers.

    If the code traverses the list from some layer on, the run has to consist of exactly those layers.
    """
    names = {path: made.name for made in program.classes for path in made.members}
    items = _items(program.tree, held)
    kinds = [(_kind(names, path, program.tree), zeros_apart and _zeros(path, program.tree)) for path in items]
    best, begin = range(0), start
    for _, equal in groupby(kinds[start:]):
        run = range(begin, begin + len(list(equal)))
        best, begin = max(best, run, key=len), run.stop
    if len(best) < 2 or (start and len(best) < held.count - start):
        return None
    return best.start, held.count - best.stop


def _kind(names: Mapping[str, str], path: str, tree: ModuleTree) -> Any:
    """A key that is equal for layers of one structure: their classes, and the names and shapes of their tensors."""
    module = tree.modules[path]
    parts = {name: f"{path}.{name}" if name else path for name, _ in module.named_modules()}
    inside = [(name, names.get(there, type(tree.modules[there]))) for name, there in parts.items()]
    held = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    # A dropout that drops nothing, or everything, draws nothing.
    dropping = [getattr(tree.layers.get(there), "p", None) in (0, 1) for there in parts.values()]
    return inside, dropping, [(name, tuple(tensor.shape)) for name, tensor in held]


def _zeros(path: str, tree: ModuleTree) -> list[tuple[str, bool]]:
    """The numbers that a layer's modules hold, and whether each is 0."""
    return [
        (f"{inside}.{name}", value == 0)
        for inside, part in tree.modules[path].named_modules()
        for name, value in vars(part).items()
        if type(value) in (int, float)
    ]


__all__ = ["CannotScan", "LayerList", "LayerStack", "layer_stacks", "lists_of", "stack_paths", "with_stacks"]
