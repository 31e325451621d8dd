"""A source whose parameters, and the results of whose layers, say where it makes them."""

from __future__ import annotations

from typing import Any

from port.translation.codegen.axis_sites import METADATA, calls_of, edited, end_of, place_of, sites_of, with_keywords

SITE = "site"
"""The name of what a marked source's variables know of their place."""
_CALL = "called_at_"
_FUTURE = "from __future__ import annotations\n"


def marked(source: str) -> str:
    """A source whose variables have the number of their construction, and whose results that of their call."""
    edits = []
    for number, site in enumerate(sites_of(source)):
        given = [f'{name}{METADATA}={{"{SITE}": {number}}}' for name in site.variables]
        edits.append(with_keywords(source, site.call, given or [f"{SITE}={number}"]))
    # Of calls within each other the outer one stands first, and is to be put around the inner.
    for number, call in enumerate(calls_of(source)):
        edits.insert(0, (end_of(source, call), ")"))
        edits.append((place_of(source, call.lineno, call.col_offset), f"_at_site({number}, "))
    line = f"from {__name__} import at_site as _at_site\n"
    return edited(source, edits).replace(_FUTURE, _FUTURE + line, 1)


def at_site(number: int, result: Any) -> Any:
    """What a call gives, marked with its number where it is an array: `site_of` reads it off a jaxpr."""
    import jax

    if not isinstance(result, jax.Array):
        return result

    def same(x: Any) -> Any:
        return x

    same.__name__ = f"{_CALL}{number}"
    return jax.jit(same)(result)


def site_of(name: Any) -> int | None:
    """The number of the call whose result a jitted function of this name marks; None for any other."""
    return int(str(name).removeprefix(_CALL)) if str(name).startswith(_CALL) else None
