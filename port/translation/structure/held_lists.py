"""The module lists that a module holds, in the form in which code reads them, and loops over them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from port.translation.ir import syntax
from port.translation.ir.module_tree import ModuleTree, identifier
from port.translation.structure.loop_names import Names
from port.translation.structure.reroll_statements import rolled

_UNNAMED: Mapping[str, Names] = {}
_NO_STRIDES: Mapping[str, int] = {}
_BEHIND = syntax.Slice(lower=syntax.Const(1))


@dataclass(frozen=True)
class HeldLists:
    """Lists by their source form: ``self.layers``, ``self.parts["layers"]``, ``self.encoder.layers``.

    Attributes:
        lengths: the number of items of each.
        counted: lists built by a comprehension, so that an argument decides their length.
        behind: lists in which a comprehension builds all items but the first.
    """

    lengths: Mapping[syntax.Expr, int] = field(default_factory=dict)
    counted: tuple[syntax.Expr, ...] = ()
    behind: tuple[syntax.Expr, ...] = ()

    def of_child(self, child: syntax.Expr) -> HeldLists:
        """The same lists as the enclosing module reads them.

        Args:
            child: how the enclosing module reads this one: ``self.encoder``.
        """

        def read(of: syntax.Expr) -> syntax.Expr:
            return syntax.transformed(of, lambda node: child if node == syntax.Name("self") else node)

        lengths = {read(of): count for of, count in self.lengths.items()}
        return HeldLists(lengths, tuple(map(read, self.counted)), tuple(map(read, self.behind)))

    def union(self, other: HeldLists) -> HeldLists:
        """The union of two sets of lists."""
        return HeldLists(
            {**self.lengths, **other.lengths}, (*self.counted, *other.counted), (*self.behind, *other.behind)
        )


def held_lists(made: Mapping[str, syntax.Expr], said: Mapping[str, syntax.Expr]) -> HeldLists:
    """Find the lists among a module's attributes, and in its dicts.

    Args:
        made: the attributes' constructions, item by item.
        said: the constructions as the constructor writes them.
    """
    items = [(of, held) for of, held in _lists(made) if isinstance(held, syntax.List)]
    lists = list(_lists(said))
    return HeldLists(
        {of: len(held.elts) for of, held in items},
        tuple(of for of, held in lists if isinstance(held, syntax.ListComp)),
        tuple(of for of, held in lists if _is_all_but_one(held)),
    )


def lists_beneath(
    path: str, own: HeldLists, known: Mapping[str, HeldLists], tree: ModuleTree, called: Collection[str]
) -> HeldLists:
    """Find the lists that a module's call may loop over: its own, and those of children without a call of their own.

    Args:
        path: the module's path.
        own: its own lists.
        known: module path → the lists of that module.
        tree: the module tree.
        called: the paths of modules with a call of their own.
    """
    for name, child in tree.modules[path]._modules.items():
        inside = f"{path}.{name}" if path else name
        if child is not None and inside in known and inside not in called:
            lists = lists_beneath(inside, known[inside], known, tree, called)
            own = own.union(lists.of_child(syntax.Attribute(syntax.Name("self"), identifier(name))))
    return own


def rolled_through(
    statements: Sequence[syntax.Stmt],
    lists: HeldLists,
    taken: set[str],
    names: Mapping[str, Names] = _UNNAMED,
    strides: Mapping[str, int] = _NO_STRIDES,
) -> list[syntax.Stmt]:
    """Roll statements into loops over lists and over parts of lists: ``self.layers[1:]``, ``self.ups[0::2]``.

    Args:
        statements: of a body.
        lists: the lists that its module holds.
        taken: names that are already in use.
        names: the original's names for the items of lists.
        strides: source form of a list → the step with which the original's loops traverse it.
    """
    made = rolled(statements, lists.lengths, taken, lists.counted, names)
    parts: dict[syntax.Expr, Sequence[syntax.Slice]] = dict.fromkeys(lists.behind, (_BEHIND,))
    as_long = {*lists.counted, *lists.behind}
    for of in lists.lengths:
        step = strides.get(syntax.source(of), 1)
        if step > 1:
            parts[of] = tuple(syntax.Slice(syntax.Const(first), None, syntax.Const(step)) for first in range(step))
    if not parts:
        return made
    lengths = {of: length for of, length in lists.lengths.items() if of not in parts}
    for of, some in parts.items():
        for part in some:
            first, step = _bounds(part)
            lengths[syntax.Subscript(of, part)] = len(range(first, lists.lengths.get(of, 1), step))
    counted = [part for part in lengths if isinstance(part, syntax.Subscript) and part.value in as_long]
    apart = [syntax.transformed(statement, partial(_split, parts=parts)) for statement in made]
    joined = partial(_joined, parts=parts)
    return [syntax.transformed(statement, joined) for statement in rolled(apart, lengths, taken, counted, names)]


def _split(node: syntax.Node, *, parts: Mapping[syntax.Expr, Sequence[syntax.Slice]]) -> syntax.Node:
    """Rewrite ``self.layers[1]`` as ``self.layers[1:][0]``."""
    match node:
        case syntax.Subscript(of, syntax.Const(int(place))):
            for part in parts.get(of, ()):
                first, step = _bounds(part)
                if place >= first and (place - first) % step == 0:
                    return syntax.Subscript(syntax.Subscript(of, part), syntax.Const((place - first) // step))
    return node


def _joined(node: syntax.Node, *, parts: Mapping[syntax.Expr, Sequence[syntax.Slice]]) -> syntax.Node:
    """Rewrite ``self.layers[1:][0]`` as ``self.layers[1]``."""
    match node:
        case syntax.Subscript(syntax.Subscript(of, syntax.Slice() as part), syntax.Const(int(place))) if (
            part in parts.get(of, ())
        ):
            first, step = _bounds(part)
            return syntax.Subscript(of, syntax.Const(first + step * place))
    return node


def _bounds(part: syntax.Slice) -> tuple[int, int]:
    """The first index of a part, and its step."""
    first, step = part.lower, part.step
    assert isinstance(first, syntax.Const)
    return first.value, step.value if isinstance(step, syntax.Const) else 1


def _is_all_but_one(held: syntax.Expr) -> bool:
    """Whether an expression is ``[first, *[other for _ in range(n - 1)]]``."""
    return isinstance(held, syntax.List) and len(held.elts) == 2 and isinstance(held.elts[1], syntax.Starred)


def _lists(attributes: Mapping[str, syntax.Expr]) -> Iterator[tuple[syntax.Expr, syntax.Expr]]:
    """Yield the lists among constructions: their source form, and their construction."""
    for name, value in attributes.items():
        yield from _lists_in(syntax.Attribute(syntax.Name("self"), name), value)


def _lists_in(of: syntax.Expr, value: syntax.Expr) -> Iterator[tuple[syntax.Expr, syntax.Expr]]:
    match value:
        case syntax.Call(syntax.Attribute(attr="frozen"), (made,)):
            yield from _lists_in(of, made)
        case syntax.Call(syntax.Attribute(attr="List"), (syntax.List() | syntax.ListComp() as held,)):
            yield of, held
        case syntax.Call(syntax.Attribute(attr="Dict"), (syntax.Dict(keys, values),)):
            for key, item in zip(keys, values, strict=True):
                yield from _lists_in(syntax.Subscript(of, key), item)
