"""Simplify expressions: ``x[:, 1:, ::2]`` for ``x[:, 1:][..., ::2]``, and a list's name for a list of all its items."""

from __future__ import annotations

from port.translation.ir import syntax


def merged_subscripts(expression: syntax.Expr) -> syntax.Expr:
    """Merge nested slices: ``x[:, 1:, ::2]`` for ``x[:, 1:][..., ::2]``.

    Nested updates as well: ``x.at[1:, 2:].set(0)`` for ``x.at[1:].set(x[1:].at[:, 2:].set(0))``.
    """
    return syntax.transformed(expression, _merged)


def _merged(node: syntax.Node) -> syntax.Node:
    match node:
        case syntax.Subscript(syntax.Subscript(array, inner), outer):
            first, second = _parts(inner), _parts(outer)
            together = None if first is None or second is None else _joined(first, second)
            if together is not None:
                return syntax.Subscript(array, together[0] if len(together) == 1 else syntax.Tuple(tuple(together)))
        case syntax.Call(_, (syntax.Call(_, (value,), ()),), ()):
            written, within = _set_in(node), _set_in(node.args[0])
            if written is not None and within is not None and within[0] == syntax.Subscript(*written):
                whole = _merged(syntax.Subscript(syntax.Subscript(*written), within[1]))
                if isinstance(whole, syntax.Subscript) and whole.value == written[0]:
                    part = syntax.Subscript(syntax.Attribute(written[0], "at"), whole.slice)
                    return syntax.Call(syntax.Attribute(part, "set"), (value,))
    return node


def _set_in(node: syntax.Node) -> tuple[syntax.Expr, syntax.Expr] | None:
    """Return the array and the index of ``x.at[1:].set(…)``."""
    match node:
        case syntax.Call(syntax.Attribute(syntax.Subscript(syntax.Attribute(array, "at"), index), "set")):
            return array, index
    return None


def _parts(index: syntax.Expr) -> tuple[syntax.Expr, ...] | None:
    """Return the parts of an index, if each indexes one axis from the front; else None."""
    parts = index.elts if isinstance(index, syntax.Tuple) else (index,)
    return parts if all(isinstance(part, syntax.Slice) or _is_number(part) for part in parts) else None


def _is_number(part: syntax.Expr) -> bool:
    if isinstance(part, syntax.UnaryOp):
        part = part.operand
    return isinstance(part, syntax.Const) and type(part.value) is int


_WHOLE = syntax.Slice()


def _joined(first: tuple[syntax.Expr, ...], second: tuple[syntax.Expr, ...]) -> list[syntax.Expr] | None:
    """Compose two indices; None if both slice the same axis."""
    made = list(first)
    axes = [place for place, part in enumerate(first) if isinstance(part, syntax.Slice)]
    for number, part in enumerate(second):
        if number >= len(axes):
            made.append(part)
        elif made[axes[number]] == _WHOLE:
            made[axes[number]] = part
        elif part != _WHOLE:
            return None
    return made


_OF_AXES = frozenset(
    syntax.Attribute(syntax.Name("jnp"), name)
    for name in ("sum", "mean", "var", "std", "max", "min", "prod", "all", "any", "count_nonzero", "nansum", "nanmean")
)
"""Functions for which ``axis=(k,)`` is equivalent to ``axis=k``."""


def with_plain_axes(expression: syntax.Expr) -> syntax.Expr:
    """Write ``axis=-1`` for ``axis=(-1,)`` in reductions."""
    return syntax.transformed(expression, _with_plain_axis)


def _with_plain_axis(node: syntax.Node) -> syntax.Node:
    if not isinstance(node, syntax.Call) or node.func not in _OF_AXES:
        return node
    return syntax.with_parts(node, _one_axis)


def _one_axis(part: syntax.Node) -> syntax.Node:
    match part:
        case syntax.Keyword("axis", syntax.Tuple((axis,))) if not isinstance(axis, syntax.Starred):
            return syntax.Keyword("axis", axis)
    return part


def with_whole_lists(
    expression: syntax.Expr, lengths: dict[str, int], tuples: dict[str, int] | None = None
) -> syntax.Expr:
    """Write ``parts`` for ``[parts[0], parts[1], parts[2]]``, if these are all items; tuples as well.

    Args:
        expression: the expression.
        lengths: parameter that is a list → its length.
        tuples: parameter that is a tuple → its length.
    """
    known = {syntax.List: lengths, syntax.Tuple: tuples or {}}

    def whole(node: syntax.Node) -> syntax.Node:
        if not isinstance(node, syntax.List | syntax.Tuple):
            return node
        found = [_item(element) for element in node.elts]
        names = {name for name, _ in found}
        if len(names) != 1:
            return node
        name = names.pop()
        count = known[type(node)].get(name)
        is_whole = count is not None and [place for _, place in found] == list(range(count))
        return syntax.Name(name) if is_whole else node

    return syntax.transformed(expression, whole) if any(known.values()) else expression


def _item(element: syntax.Expr) -> tuple[str, int]:
    match element:
        case syntax.Subscript(syntax.Name(name), syntax.Const(int(place))):
            return name, place
    return "", -1
