"""What is written of a model: its classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from port.translation.ir import syntax
from port.translation.ir.module_tree import ModuleTree
from port.translation.structure.cases import Held
from port.translation.structure.class_merge import FoldedClass
from port.translation.structure.configurations import ConfigurationClass, configurations_of, constructed_with
from port.translation.structure.entangled import Entangled
from port.translation.structure.untaken import Untaken


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
        options: path of an instance → the defaults of the parameters of its call that may hold no array.
        held: what the root's call is given in each example call.
        untaken: the root's options that no example call gives otherwise.
        entangled: the root's arguments that the example calls do not take apart.
    """

    classes: tuple[FoldedClass, ...]
    tree: ModuleTree
    numbers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    annotations: Mapping[str, Mapping[str, set[str]]] = field(default_factory=dict)
    layers: frozenset[str] = frozenset()
    variables: frozenset[str] = frozenset()
    options: Mapping[str, Mapping[str, syntax.Expr]] = field(default_factory=dict)
    held: tuple[Mapping[str, Held], ...] = ()
    untaken: tuple[Untaken, ...] = ()
    entangled: tuple[Entangled, ...] = ()

    @cached_property
    def configurations(self) -> tuple[ConfigurationClass, ...]:
        """The configurations that constructors take."""
        return configurations_of(self.classes)

    @property
    def arguments(self) -> dict[str, syntax.Expr]:
        """What the root's constructor is given to make the model that is translated, but for defaults."""
        return constructed_with(self.classes[-1], self.configurations)
