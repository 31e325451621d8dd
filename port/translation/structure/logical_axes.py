"""The logical axes of a model, as its source says them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Names = tuple[str | None, ...]


@dataclass(frozen=True)
class CalledLayer:
    """A call of a layer.

    Attributes:
        gives: the names of the axes of what it gives; none where that is left to the compiler.
        is_gathered: whether the layer's parameters are whole for it: of a table, that is looked up in, and of a
            projection that no axis of a mesh divides but those of the batch.
    """

    gives: Names = ()
    is_gathered: bool = False


@dataclass(frozen=True)
class LogicalAxes:
    """The names of axes, by where the source makes the arrays.

    Attributes:
        weights: for each construction of a layer or a parameter in the source, in order: the variables that it makes →
            the names of their axes. A parameter of the class's own has no name of a variable.
        calls: what is said of each call of a layer in the source, in order.
        rules: logical name → axes of a mesh.
        unnamed: paths of the parameters of several axes of which none has a name.
    """

    weights: tuple[Mapping[str, Names], ...] = ()
    calls: tuple[CalledLayer, ...] = ()
    rules: Mapping[str, str | tuple[str, ...] | None] | None = None
    unnamed: tuple[str, ...] = ()


NO_AXES = LogicalAxes()
