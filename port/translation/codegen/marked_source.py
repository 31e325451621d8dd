"""Mark a source: its parameters carry the number of their construction, its layers' results that of their call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from port.translation.codegen.axis_sites import (
    BY_PATH,
    METADATA,
    calls_of,
    edited,
    end_of,
    place_of,
    sites_of,
    with_keywords,
)

SITE = "site"
"""The metadata of a marked source's variables: the number of the construction, and the variable's name there."""
_CALL = "called_at_"
_NO_FIRST = "_no_first"
_FUTURE = "from __future__ import annotations\n"


@dataclass(frozen=True)
class CallMark:
    """The mark of a call in a jaxpr: a jitted identity of the call's results, which also takes the layer's weights.

    Attributes:
        number: of the call, in the order of the source.
        has_first: whether the call returns an array, or a tuple that starts with one: the mark's first result.
    """

    number: int
    has_first: bool


def marked(source: str) -> str:
    """Return the source with marks: metadata `SITE` at each construction, `called_at` around each called layer."""
    edits = []
    for number, site in enumerate(sites_of(source)):
        if site.is_by_path:
            edits.append(with_keywords(source, site.call, [f"{BY_PATH}=_MarkedPaths({number})"]))
            continue
        marks = [f'{name}{METADATA}={{"{SITE}": ({number}, "{name}")}}' for name in site.variables]
        edits.append(with_keywords(source, site.call, marks or [f'{SITE}=({number}, "")']))
    for number, call in enumerate(calls_of(source)):
        edits.append((end_of(source, call.func), ")"))
        edits.append((place_of(source, call.lineno, call.col_offset), f"_called_at({number}, "))
    line = f"from {__name__} import MarkedPaths as _MarkedPaths, called_at as _called_at\n"
    return edited(source, edits).replace(_FUTURE, _FUTURE + line, 1)


class MarkedPaths(dict[str, dict[str, tuple[int, str]]]):
    """The marks of a layer that is made of others: the number of its construction, and each parameter's path."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def __bool__(self) -> bool:
        return True

    def get(self, path: str, default: Any = None) -> Any:
        """Return the mark of any path."""
        return {SITE: (self.number, path)}


def called_at(number: int, layer: Callable[..., Any]) -> Callable[..., Any]:
    """Return a layer whose results are marked with the number of its call, which `mark_of` reads from a jaxpr.

    The mark takes the layer's weights too, if one construction in the source makes all of them.
    """
    import jax

    def call(*arguments: Any, **options: Any) -> Any:
        weights = _weights_of_one_construction(layer)
        result = layer(*arguments, **options)
        leaves, tree = jax.tree.flatten(result)
        places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, jax.Array)]
        if not places:
            return jax.tree.unflatten(tree, leaves)

        def same(arrays: list[Any], weights: list[Any]) -> list[Any]:
            return arrays

        first = result[0] if isinstance(result, tuple) and result else result
        same.__name__ = f"{_CALL}{number}" if isinstance(first, jax.Array) else f"{_CALL}{number}{_NO_FIRST}"
        for place, array in zip(places, jax.jit(same)([leaves[place] for place in places], weights), strict=True):
            leaves[place] = array
        return jax.tree.unflatten(tree, leaves)

    return call


def mark_of(name: Any) -> CallMark | None:
    """Return the mark whose jitted function has this name; None if it is no mark."""
    text = str(name)
    if not text.startswith(_CALL):
        return None
    return CallMark(int(text.removeprefix(_CALL).removesuffix(_NO_FIRST)), has_first=not text.endswith(_NO_FIRST))


def _weights_of_one_construction(layer: Any) -> list[Any]:
    from flax import nnx

    if not isinstance(layer, nnx.Module):
        return []
    variables = [variable for _, variable in nnx.to_flat_state(nnx.state(layer))]
    found = [variable for variable in variables if variable.get_metadata(SITE, None) is not None]
    if len({variable.get_metadata(SITE)[0] for variable in found}) != 1:
        return []
    return [variable.get_value() for variable in found]
