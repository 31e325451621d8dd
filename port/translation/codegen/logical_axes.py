"""Annotate a source with the logical axes of its parameters and of its layers' results."""

from __future__ import annotations

from port.translation.codegen.axis_sites import (
    BY_PATH,
    METADATA,
    WRAP,
    calls_of,
    edited,
    end_of,
    place_of,
    sites_of,
    with_keywords,
)
from port.translation.structure.logical_axes import LogicalAxes, Names


def named(source: str, axes: LogicalAxes) -> str:
    """Add logical axis names to a source.

    Args:
        source: the source without them.
        axes: the axes of its constructions and calls.
    """
    edits = []
    for site, names in zip(sites_of(source), axes.weights, strict=True):
        metadata = {name: f"logical_axes({_listed(each)})" for name, each in names.items() if any(each)}
        if site.is_by_path:
            entries = ", ".join(f'"{path}": {text}' for path, text in metadata.items())
            keywords = [f"{BY_PATH}={{{entries}}}", f"{WRAP}=gathered"]
            edits += [with_keywords(source, site.call, keywords)] if entries else []
            continue
        keywords = [f"{name}{METADATA}={text}" if name else f"**{text}" for name, text in metadata.items()]
        edits += [with_keywords(source, site.call, keywords)] if keywords else []
    for call, call_axes in zip(calls_of(source), axes.calls, strict=True):
        start, end = place_of(source, call.lineno, call.col_offset), end_of(source, call)
        if call_axes.is_gathered:
            edits += [(start, "gathered("), (end_of(source, call.func), ")")]
        if call_axes.gives:
            edits += [(start, "divided("), (end, f", {_listed(call_axes.gives)})")]
    return edited(source, edits)


def rules_text(axes: LogicalAxes) -> str:
    """Return the source of the ``RULES`` table."""
    lines = [f"    {name!r}: {along!r},\n" for name, along in (axes.rules or {}).items()]
    return (
        "# Logical axis → the axis of a mesh along which it is divided; a mesh need not have all of them.\n"
        f"RULES = {{\n{''.join(lines)}}}"
    )


def _listed(names: Names) -> str:
    return ", ".join("None" if name is None else f'"{name}"' for name in names)
