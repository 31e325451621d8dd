"""The logical axes of a model, as its source states them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Names = tuple[str | None, ...]


@dataclass(frozen=True)
class CalledLayer:
    """A call of a layer.

    Attributes:
        gives: the names of the output's axes; empty where they are left to the compiler.
        is_gathered: whether the layer's parameters are gathered for the call: for an embedding lookup, and for a
            projection that only the batch axes of a mesh divide.
    """

    gives: Names = ()
    is_gathered: bool = False


@dataclass(frozen=True)
class LogicalAxes:
    """The names of axes, by the place in the source that creates the arrays.

    Attributes:
        weights: for each construction of a layer or parameter in the source, in order: variable → names of its axes. A
            class's own parameter has an empty variable name; a layer that is made of others has paths.
        calls: for each call of a layer in the source, in order.
        rules: logical name → mesh axes.
        unnamed: paths of the parameters with several axes none of which has a name.
    """

    weights: tuple[Mapping[str, Names], ...] = ()
    calls: tuple[CalledLayer, ...] = ()
    rules: Mapping[str, str | tuple[str, ...] | None] | None = None
    unnamed: tuple[str, ...] = ()

    @property
    def gathers(self) -> bool:
        """Whether a layer, or a part of a layer that is made of others, is gathered for its call."""
        in_parts = any("." in path and any(names) for site in self.weights for path, names in site.items())
        return in_parts or any(call.is_gathered for call in self.calls)


NO_AXES = LogicalAxes()
