"""Moves as plain data, for mapping files; what a user leaves out is inferred from the shapes."""

from __future__ import annotations

from math import prod
from typing import Any

from port.errors import UnknownChoice, WeightsMismatch
from port.moves.combinators import Branch, EachBranch, Order
from port.moves.eight_bits import blocks_of
from port.moves.merge import Merge
from port.moves.move import Move, Shapes
from port.moves.padding import Pad, Unpad
from port.moves.scales import Narrow, Widen
from port.moves.single import Flip, Fold, Permute, Reshape
from port.moves.split_stack import Join, Split, Stack, Unstack
from port.moves.tie_sum import Addends, Copy, Sum, Tie

Spec = dict[str, Any]
NAMES = (
    *("permute", "reshape", "fold", "flip", "split", "join", "stack", "unstack"),
    *("tie", "copy", "sum", "addends", "order", "each", "pad", "unpad", "merge"),
    *("widen", "narrow"),
)


def move_from(spec: Spec, shapes: Shapes | None) -> Move:
    """Read a move from one table of a mapping file.

    Args:
        spec: one name and its value: ``{permute = [1, 0]}``, ``{reshape = [64, 4, 16]}`` (one −1 allowed),
            ``{fold = [512, 7, 7]}``, ``{flip = [0, 1]}``, ``{split = 3}`` (equal parts of axis 0) or
            ``{split = {axis = 0, sizes = [8, 4, 4]}}``, ``{join = 0}`` (the axis), ``{stack = 0}``,
            ``{unstack = 0}``, ``{tie = true}``, ``{copy = 2}``, ``{sum = true}``, ``{pad = 50304}`` (axis 0 to that
            length, with zeros) or ``{pad = {axis = 0, to = 50304, value = -1e9}}``, ``{unpad = 50257}`` likewise,
            ``{merge = 2.0}`` (an adapter's scaling; takes a weight, A and B),
            ``{widen = {from = "float8_e4m3fn", to = "bfloat16"}}`` (a weight and its scales), with
            ``blocks = [128, 128]`` where their shapes do not determine them.
        shapes: the shapes of the move's input arrays; they complete what the table leaves out. None if unknown: the
            move then has to be written out in full, as `spec_of` does.

    Raises:
        WeightsMismatch: the move does not exist, or its value is invalid.
    """
    if not isinstance(spec, dict) or len(spec) != 1:
        raise WeightsMismatch(f"a move is one name and its value, as in {{permute = [1, 0]}}; got {spec!r}")
    ((name, value),) = spec.items()
    try:
        return _read(name, value, shapes)
    except UnknownChoice as error:
        raise WeightsMismatch(str(error)) from None
    except (KeyError, TypeError, ValueError, IndexError) as error:
        why = f"{error} is missing" if isinstance(error, KeyError) else error
        raise WeightsMismatch(f"the move {name} = {value!r} cannot be read: {why}") from error


def moves_from(specs: list[Spec], shapes: Shapes | None) -> tuple[Move, ...]:
    """Read a list of such tables, each completed by the output shapes of the one before.

    Raises:
        WeightsMismatch: as for `move_from`, and for shapes that a move cannot take.
    """
    if not isinstance(specs, list | tuple):
        raise WeightsMismatch(f"moves are a list, as in [{{permute = [1, 0]}}]; got {specs!r}")
    moves: list[Move] = []
    for spec in specs:
        move = move_from(spec, shapes)
        shapes = None if shapes is None else move.shapes(shapes)
        moves.append(move)
    return tuple(moves)


def spec_of(move: Move) -> Spec:
    """Write a move as complete data: `move_from` reads it back without shapes."""
    match move:
        case Permute():
            return {"permute": list(move.axes)}
        case Reshape():
            return {"reshape": {"from": list(move.before), "to": list(move.after)}}
        case Fold():
            return {"fold": {"axis": move.axis, "shape": list(move.shape), "order": list(move.order)}}
        case Flip():
            return {"flip": list(move.axes)}
        case Split() | Join():
            return {type(move).__name__.lower(): {"axis": move.axis, "sizes": list(move.sizes)}}
        case Stack() | Unstack():
            return {type(move).__name__.lower(): {"axis": move.axis, "count": move.count}}
        case Tie() | Copy() | Sum() | Addends():
            return {type(move).__name__.lower(): move.count}
        case Pad() | Unpad():
            before, after = (move.size, move.padded) if isinstance(move, Pad) else (move.padded, move.size)
            value = {"value": move.value} if move.value else {}
            return {type(move).__name__.lower(): {"axis": move.axis, "from": before, "to": after, **value}}
        case Merge():
            return {"merge": move.scaling}
        case Widen() | Narrow():
            return {type(move).__name__.lower(): _of_scales(move)}
        case Order():
            return {"order": list(move.places)}
        case EachBranch():
            return {"each": [_branch(branch) for branch in move.branches]}
    raise WeightsMismatch(f"a {type(move).__qualname__} has no written form")


def _branch(branch: Branch) -> Spec:
    return {"takes": branch.takes, "gives": branch.gives, "moves": [spec_of(move) for move in branch.moves]}


def fold_from(value: Any) -> Fold:
    """A fold for the inputs (axis 1) of a torch Linear, from ``[channels, *spatial]`` to channels last."""
    if isinstance(value, dict):
        return Fold(_number(value["axis"]), _numbers(value["shape"]), _numbers(value["order"]))
    shape = _numbers(value)
    return Fold(1, shape, (*range(1, len(shape)), 0))


def _read(name: str, value: Any, shapes: Shapes | None) -> Move:
    match name:
        case "permute":
            return Permute(_numbers(value))
        case "reshape":
            return _reshape(value, shapes)
        case "fold":
            return fold_from(value)
        case "flip":
            return Flip(_numbers(value))
        case "split":
            return _split(value, shapes)
        case "join":
            axis, sizes = _axis_and(value, "sizes")
            return Join(axis, tuple(shape[axis] for shape in _known(shapes)) if sizes is None else _numbers(sizes))
        case "stack":
            axis, count = _axis_and(value, "count")
            return Stack(axis, len(_known(shapes)) if count is None else _number(count))
        case "unstack":
            axis, count = _axis_and(value, "count")
            return Unstack(axis, _known(shapes)[0][axis] if count is None else _number(count))
        case "tie" | "sum":
            count = len(_known(shapes)) if value is True else _number(value)
            return Tie(count) if name == "tie" else Sum(count)
        case "copy":
            return Copy(_number(value))
        case "addends":
            return Addends(_number(value))
        case "pad" | "unpad":
            return _padding(name, value if isinstance(value, dict) else {"to": value}, shapes)
        case "widen" | "narrow":
            return _by_scales(name, value, shapes)
        case "merge":
            return Merge(_real(value, "the scaling"))
        case "order":
            return Order(_numbers(value))
        case "each":
            return _each(value, shapes)
    raise UnknownChoice("move", name, NAMES)


def _reshape(value: Any, shapes: Shapes | None) -> Reshape:
    before = _numbers(value["from"]) if isinstance(value, dict) else _known(shapes)[0]
    after = _numbers(value["to"] if isinstance(value, dict) else value)
    if after.count(-1) != 1:
        return Reshape(before, after)
    known = -prod(after)
    if not known or prod(before) % known:
        raise ValueError(f"{prod(before)} elements do not fill {after}")
    return Reshape(before, tuple(prod(before) // known if size == -1 else size for size in after))


def _split(value: Any, shapes: Shapes | None) -> Split:
    table = value if isinstance(value, dict) else {"parts": value}
    axis = _number(table.get("axis", 0))
    if "sizes" in table:
        return Split(axis, _numbers(table["sizes"]))
    parts, size = _number(table["parts"]), _known(shapes)[0][axis]
    if parts < 1 or size % parts:
        raise ValueError(f"{size} elements along axis {axis} cannot be split into {parts} equal parts")
    return Split(axis, (size // parts,) * parts)


def _padding(name: str, table: Spec, shapes: Shapes | None) -> Pad | Unpad:
    axis, after = _number(table.get("axis", 0)), _number(table["to"])
    before = _known(shapes)[0][axis] if "from" not in table else _number(table["from"])
    return (Pad if name == "pad" else Unpad)(axis, before, after, _real(table.get("value", 0.0), "the padding's value"))


def _of_scales(move: Widen | Narrow) -> Spec:
    ends = (move.stored, move.dtype) if isinstance(move, Widen) else (move.dtype, move.stored)
    said = {"from": ends[0], "to": ends[1], "blocks": list(move.blocks), "scales": list(move.scales)}
    return said | {"scaled": move.scaled} | ({} if move.factor == 1.0 else {"factor": move.factor})


def _by_scales(name: str, table: Any, shapes: Shapes | None) -> Widen | Narrow:
    if not isinstance(table, dict):
        raise ValueError('it needs both dtypes, as in {from = "float8_e4m3fn", to = "bfloat16"}')
    if unknown := sorted(set(table) - {"from", "to", "blocks", "scales", "scaled", "factor"}):
        raise ValueError(f"unknown key {', '.join(unknown)}")
    ends = (table["to"], table["from"]) if name == "widen" else (table["from"], table["to"])
    scaled = table.get("scaled", "float32")
    if not all(isinstance(each, str) for each in (*ends, scaled)):
        raise ValueError("dtypes are names")
    scales = _numbers(table["scales"]) if "scales" in table or name == "narrow" else _known(shapes)[1]
    said = _numbers(table["blocks"]) if "blocks" in table else None
    blocks = said if said is not None and (shapes is None or 0 in said) else blocks_of(_known(shapes)[0], scales, said)
    made = Widen(*ends, blocks, scales, scaled, _real(table.get("factor", 1.0), "the factor"))
    return made if name == "widen" else made.inverse()


def _each(value: Any, shapes: Shapes | None) -> EachBranch:
    branches = []
    for branch in value:
        takes, part = _number(branch["takes"]), None
        if shapes is not None:
            part, shapes = shapes[:takes], shapes[takes:]
        branches.append(Branch(takes, moves_from(branch["moves"], part), _number(branch["gives"])))
    return EachBranch(tuple(branches))


def _axis_and(value: Any, other: str) -> tuple[int, Any]:
    """The axis, alone or in a table, and the table's other value."""
    if isinstance(value, dict):
        return _number(value["axis"]), value.get(other)
    return _number(value), None


def _known(shapes: Shapes | None) -> Shapes:
    if not shapes:
        raise ValueError("the shapes that would complete it are not known here; write its sizes or count out")
    return shapes


def _number(value: Any) -> int:
    if type(value) is not int:
        raise ValueError(f"it takes a whole number, not {value!r}")
    return value


def _real(value: Any, what: str) -> float:
    if type(value) not in (int, float):
        raise ValueError(f"{what} is a number, not {value!r}")
    return float(value)


def _numbers(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"it takes a list of whole numbers, not {value!r}")
    return tuple(_number(number) for number in value)
