"""Instrument a source: tag each parameter with its construction site, and each layer's result with its call site."""

from __future__ import annotations

from typing import Any

from port.translation.codegen.axis_sites import METADATA, calls_of, edited, end_of, place_of, sites_of, with_keywords

SITE = "site"
"""The metadata key that holds a variable's construction number."""
_CALL = "called_at_"
_FUTURE = "from __future__ import annotations\n"


def marked(source: str) -> str:
    """Return the source with its variables tagged by construction number, and its layers' results by call number."""
    edits = []
    for number, site in enumerate(sites_of(source)):
        metadata = [f'{name}{METADATA}={{"{SITE}": {number}}}' for name in site.variables]
        edits.append(with_keywords(source, site.call, metadata or [f"{SITE}={number}"]))
    # Of nested calls the outer one comes first; its wrapper has to enclose the inner one's.
    for number, call in enumerate(calls_of(source)):
        edits.insert(0, (end_of(source, call), ")"))
        edits.append((place_of(source, call.lineno, call.col_offset), f"_at_site({number}, "))
    line = f"from {__name__} import at_site as _at_site\n"
    return edited(source, edits).replace(_FUTURE, _FUTURE + line, 1)


def at_site(number: int, result: Any) -> Any:
    """Tag a call's result with its number, if it is an array: `site_of` finds the tag in a jaxpr."""
    import jax

    if not isinstance(result, jax.Array):
        return result

    def same(x: Any) -> Any:
        return x

    same.__name__ = f"{_CALL}{number}"
    return jax.jit(same)(result)


def site_of(name: Any) -> int | None:
    """Return the call number that a jitted function's name carries; None for other functions."""
    return int(str(name).removeprefix(_CALL)) if str(name).startswith(_CALL) else None
