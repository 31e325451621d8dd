"""Roll statements that repeat for one item of a list after another into a loop."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from port.translation.ir import syntax
from port.translation.ir.expr import names_in
from port.translation.structure.anti_unify import Differ, Holes, numbered, unified
from port.translation.structure.loop_names import Names
from port.translation.structure.name_hints import is_reserved

_LONGEST = 8
_PLACE = numbered(0)
"""Placeholder for the iteration's number: as the index of an item, or by itself."""
_UNNAMED: Mapping[str, Names] = {}
_BACK = "back from "
"""Prefix of placeholders for a number that decreases by one per iteration; the first iteration's number follows."""


Lengths = Mapping[syntax.Expr, int]
"""The lists that a module holds, in source form (``self.layers``, ``self.parts["layers"]``) → their lengths."""


def rolled(
    statements: Sequence[syntax.Stmt],
    lengths: Lengths,
    taken: set[str],
    counted: Collection[syntax.Expr] = (),
    names: Mapping[str, Names] = _UNNAMED,
) -> list[syntax.Stmt]:
    """Write ``for layer in self.layers: x = layer(x)`` for ``x = self.layers[0](x)`` and so on.

    The iterations may also differ in the index itself (``for i, layer in enumerate(self.layers)``) and in items of
    several lists (``for norm, layer in zip(self.norms, self.layers)``), some traversed backwards
    (``zip(self.ups, reversed(skips))``). All else has to be equal, so that the loop does what the statements did.

    Args:
        statements: of a body.
        lengths: the lengths of lists that ``self`` and variables hold.
        taken: names that are already in use.
        counted: lists whose length is an argument: a statement on the only item of one becomes a loop, too.
        names: the original's names for their items, from `loop_names`.
    """
    made: list[syntax.Stmt] = []
    number = 0
    while number < len(statements):
        found = _repeat(statements, number, lengths) or _single(statements[number], lengths, counted)
        if found is None:
            made.append(_with_loops_inside(statements[number], lengths, taken, counted, names))
            number += 1
            continue
        made.append(_loop(found, lengths, taken, names))
        number += len(found.block) * found.rounds
    return made


def _with_loops_inside(
    statement: syntax.Stmt,
    lengths: Lengths,
    taken: set[str],
    counted: Collection[syntax.Expr],
    names: Mapping[str, Names],
) -> syntax.Stmt:
    """Roll the statements in the branches of a statement."""
    if not isinstance(statement, syntax.If):
        return statement
    body, orelse = (tuple(rolled(part, lengths, taken, counted, names)) for part in (statement.body, statement.orelse))
    return replace(statement, body=body, orelse=orelse)


@dataclass(frozen=True)
class _Repeat:
    """Statements that repeat.

    Attributes:
        block: the statements of one iteration, with `_PLACE` for its number.
        rounds: the number of iterations.
        lists: the lists that are traversed, in the order in which they are read.
    """

    block: tuple[syntax.Stmt, ...]
    rounds: int
    lists: tuple[syntax.Expr, ...]


def _repeat(statements: Sequence[syntax.Stmt], start: int, lengths: Lengths) -> _Repeat | None:
    """Find a repetition from here on, with as few statements per iteration as possible."""
    for period in range(1, min(_LONGEST, (len(statements) - start) // 2) + 1):
        first = statements[start : start + period]
        if not any(_reads_first_item(statement, lengths) for statement in first):
            continue
        block, rounds = _in_round(first, statements[start + period : start + 2 * period], 1), 1
        if block is None:
            continue
        while _in_round(first, statements[start + period * rounds : start + period * (rounds + 1)], rounds) == block:
            rounds += 1
        lists = _lists_of(block, lengths, rounds)
        if lists:
            return _Repeat(block, rounds, lists)
    return None


def _single(statement: syntax.Stmt, lengths: Lengths, counted: Collection[syntax.Expr]) -> _Repeat | None:
    """A single iteration over lists of one item; for an ``if``, only its test counts, as loops go inside its branches.

    A function definition is no iteration: the function is called elsewhere.
    """
    if isinstance(statement, syntax.FunctionDef):
        return None
    own = statement.test if isinstance(statement, syntax.If) else statement
    found = {_list_of(node, syntax.Const(0)) for node in syntax.walk(own)}
    lists = [of for of in counted if of in found and lengths.get(of) == 1]
    if not lists:
        return None

    def placed(node: syntax.Node) -> syntax.Node:
        of = _list_of(node, syntax.Const(0))
        return syntax.Subscript(of, _PLACE) if of is not None and of in lists else node

    return _Repeat((syntax.transformed(statement, placed),), 1, tuple(lists))


def _reads_first_item(statement: syntax.Stmt, lengths: Lengths) -> bool:
    return any(_list_of(node, syntax.Const(0)) in lengths for node in syntax.walk(statement))


def _list_of(node: syntax.Node, index: syntax.Expr) -> syntax.Expr | None:
    """Match an item of a list: ``self.layers`` for ``self.layers[index]``."""
    match node:
        case syntax.Subscript(value, place) if place == index:
            return value
    return None


def _backwards_of(node: syntax.Node) -> tuple[syntax.Expr, int] | None:
    """Match an item that moves back from the end of a list: ``reversed(skips)``, and the list's length."""
    match node:
        case syntax.Subscript(value, syntax.Hole(name)) if name.startswith(_BACK):
            return syntax.Call(syntax.Name("reversed"), (value,)), int(name.removeprefix(_BACK)) + 1
    return None


def _in_round(
    first: Sequence[syntax.Stmt], other: Sequence[syntax.Stmt], number: int
) -> tuple[syntax.Stmt, ...] | None:
    """The first iteration, with `_PLACE` where another iteration has its number instead of 0; None if more differs.

    A number that decreases by as much becomes a hole named after the number from which the iterations count down.
    """
    if len(other) < len(first):
        return None
    holes = Holes()
    try:
        block = tuple(unified(pair, holes) for pair in zip(first, other, strict=True))
    except Differ:
        return None
    instead: dict[syntax.Hole, syntax.Hole] = {}
    for place, hole in enumerate(holes.found):
        one, another = hole.values
        if type(one) is not int or type(another) is not int or abs(another - one) != number:
            return None
        if another > one > 0:
            return None
        instead[numbered(place)] = _PLACE if another > one else syntax.Hole(f"{_BACK}{one}")
    if list(instead.values()).count(_PLACE) != 1:
        return None

    def of(node: syntax.Node) -> syntax.Node:
        return instead[node] if isinstance(node, syntax.Hole) and node in instead else node

    return tuple(syntax.transformed(statement, of) for statement in block)


def _lists_of(block: Sequence[syntax.Stmt], lengths: Lengths, rounds: int) -> tuple[syntax.Expr, ...]:
    """The lists that are traversed; none if a decreasing number is anything but an index into a list of that length."""
    found: list[syntax.Expr] = []
    placed = 0
    # A list to which the iterations append is shorter when the loop begins.
    appended = {
        node.func.value
        for node in syntax.walk(*block)
        if isinstance(node, syntax.Call) and isinstance(node.func, syntax.Attribute) and node.func.attr == "append"
    }
    for node in syntax.walk(*block):
        ahead, back = _list_of(node, _PLACE), _backwards_of(node)
        if ahead is not None and ahead in lengths and ahead not in appended:
            found.append(ahead)
        elif back is not None and isinstance(node, syntax.Subscript) and back[1] == lengths.get(node.value) == rounds:
            found.append(back[0])
            placed += 1
    counted_down = [node for node in syntax.walk(*block) if isinstance(node, syntax.Hole) and node != _PLACE]
    return tuple(dict.fromkeys(found)) if placed == len(counted_down) else ()


def _item_name(of: syntax.Expr) -> str:
    """A name for an item: ``layer`` for ``self.layers`` or a part of it."""
    match of:
        case syntax.Call(syntax.Name("reversed"), (whole,)) | syntax.Subscript(whole, syntax.Slice()):
            return _item_name(whole)
        case syntax.Attribute(attr=name) | syntax.Subscript(slice=syntax.Const(str() as name)) | syntax.Name(name):
            return name[:-1] if name.endswith("s") and len(name) > 2 and name[:-1].isidentifier() else "layer"
    return "layer"


def _loop(repeat: _Repeat, lengths: Lengths, taken: set[str], originals: Mapping[str, Names]) -> syntax.Stmt:
    names: dict[syntax.Expr, str] = {}
    for of in repeat.lists:
        own = originals.get(syntax.source(of), "self")
        wanted = _item_name(of) if isinstance(own, tuple) or is_reserved(own) else own
        names[of] = _free_name(wanted, {*taken, *names.values()})
    index = syntax.Name(_free_name("i", {*taken, *names.values()}))

    def written(node: syntax.Node) -> syntax.Node:
        back = _backwards_of(node)
        of = _list_of(node, index) if back is None else back[0]  # inner nodes are replaced first, so the index is, too
        return syntax.Name(names[of]) if of in names else index if node == _PLACE else node

    block = tuple(syntax.transformed(statement, written) for statement in repeat.block)
    parts: dict[str, tuple[str, ...]] = {}
    for of, name in names.items():
        own = originals.get(syntax.source(of), ())
        others = {*taken, index.id, *names.values(), *(part for each in parts.values() for part in each)} - {name}
        if isinstance(own, tuple) and (opened := _opened(block, name, own, others)) is not None:
            block, parts[name] = opened, own
    items: list[syntax.Expr] = list(repeat.lists)
    if repeat.rounds < min(lengths.get(of, repeat.rounds) for of in repeat.lists):
        items[0] = syntax.Subscript(items[0], syntax.Slice(upper=syntax.Const(repeat.rounds)))
    targets = [_target(parts.get(names[of], names[of])) for of in repeat.lists]
    target = targets[0]
    through = items[0]
    if len(items) > 1:
        target = syntax.Tuple(tuple(targets))
        through = syntax.Call(syntax.Name("zip"), tuple(items))
    if any(node == index for node in syntax.walk(*block)):
        target, through = syntax.Tuple((index, target)), syntax.Call(syntax.Name("enumerate"), (through,))
    return syntax.For(target, through, block)


def _opened(
    block: tuple[syntax.Stmt, ...], item: str, own: tuple[str, ...], taken: set[str]
) -> tuple[syntax.Stmt, ...] | None:
    """Name the parts of an item: ``attend(x)`` for ``layer[0](x)``; None if the item is also read as a whole."""

    def named(node: syntax.Node) -> syntax.Node:
        match node:
            case syntax.Subscript(syntax.Name(name), syntax.Const(int() as place)) if name == item and place < len(own):
                return syntax.Name(own[place])
        return node

    made = tuple(syntax.transformed(statement, named) for statement in block)
    is_free = bool(own) and not taken & {*own} and not any(map(is_reserved, own)) and len({*own}) == len(own)
    return made if is_free and item not in names_in(*made) else None


def _target(names: Names) -> syntax.Expr:
    return syntax.Name(names) if isinstance(names, str) else syntax.Tuple(tuple(map(syntax.Name, names)))


def _free_name(wanted: str, taken: set[str]) -> str:
    """A name that is not taken."""
    while wanted in taken:
        wanted = f"{wanted}_"
    return wanted
