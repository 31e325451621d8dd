"""What is written of a model: its classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from port.translation.ir import syntax
from port.translation.ir.module_tree import ModuleTree
from port.translation.structure.class_merge import FoldedClass
from port.translation.structure.configurations import ConfigurationClass, configurations_of, constructed_with


@dataclass(frozen=True)
class Program:
    """The classes, innermost first.

    Attributes:
        classes: the last is the root's.
        tree: of the torch modules.
        numbers: path of an instance → the parameters that it is given whole numbers for, as `numbers_given` tells.
        annotations: path of an instance → what it is given and gives in any call, as `annotations_of` tells.
        layers: paths of the layers that the written module holds.
        variables: Flax's dotted paths of the parameters and buffers of one's own that it holds.
    """

    classes: tuple[FoldedClass, ...]
    tree: ModuleTree
    numbers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    annotations: Mapping[str, Mapping[str, set[str]]] = field(default_factory=dict)
    layers: frozenset[str] = frozenset()
    variables: frozenset[str] = frozenset()

    @cached_property
    def configurations(self) -> tuple[ConfigurationClass, ...]:
        """The configurations that constructors take."""
        return configurations_of(self.classes)

    @property
    def arguments(self) -> dict[str, syntax.Expr]:
        """What the root's constructor is given to make the model that is translated, but for defaults."""
        return constructed_with(self.classes[-1], self.configurations)
