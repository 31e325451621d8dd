"""A source that says the logical axes of its parameters, and of what its layers give."""

from __future__ import annotations

from port.translation.codegen.axis_sites import METADATA, calls_of, edited, end_of, place_of, sites_of, with_keywords
from port.translation.structure.logical_axes import LogicalAxes, Names


def named(source: str, axes: LogicalAxes) -> str:
    """A source with the names of its axes.

    Args:
        source: without them.
        axes: of the constructions and the calls in it.
    """
    edits = []
    for site, names in zip(sites_of(source), axes.weights, strict=True):
        said = {name: f"logical_axes({_listed(each)})" for name, each in names.items() if any(each)}
        given = [f"{name}{METADATA}={text}" if name else f"**{text}" for name, text in said.items()]
        edits += [with_keywords(source, site.call, given)] if given else []
    for call, said_of_it in zip(calls_of(source), axes.calls, strict=True):
        start, end = place_of(source, call.lineno, call.col_offset), end_of(source, call)
        if said_of_it.is_gathered:
            edits += [(start, "gathered("), (end_of(source, call.func), ")")]
        if said_of_it.gives:
            edits += [(start, "divided("), (end, f", {_listed(said_of_it.gives)})")]
    return edited(source, edits)


def rules_text(axes: LogicalAxes) -> str:
    """The table of rules that stands in a source."""
    lines = [f"    {name!r}: {along!r},\n" for name, along in (axes.rules or {}).items()]
    return (
        "# The axis of a mesh that each logical axis is divided along; a mesh need not have all of them.\n"
        f"RULES = {{\n{''.join(lines)}}}"
    )


def _listed(names: Names) -> str:
    return ", ".join("None" if name is None else f'"{name}"' for name in names)
