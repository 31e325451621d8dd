"""What is written of a model: its classes and functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from port.translation.ir import syntax
from port.translation.ir.expr import names_in
from port.translation.ir.module_tree import ModuleTree
from port.translation.structure.cases import Held
from port.translation.structure.class_merge import FoldedClass
from port.translation.structure.configurations import ConfigurationClass, configurations_of, constructed_with
from port.translation.structure.kept_constructor import KeptDefinition
from port.translation.structure.untaken import Untaken
from port.translation.structure.written_function import Functions, WrittenFunction


@dataclass(frozen=True)
class Program:
    """The classes and the functions, innermost first.

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
        functions: those that the classes call.
        definitions: functions and classes of the original's that constructors read.
        imports: lines that these need.
        also: programs of other constructions of the model, of what only those have.
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
    functions: tuple[WrittenFunction, ...] = ()
    definitions: tuple[KeptDefinition, ...] = ()
    imports: frozenset[str] = frozenset()
    also: tuple[Program, ...] = ()

    @property
    def is_kept(self) -> bool:
        """Whether its constructors are written as the original's source has them."""
        return any(made.kept is not None for made in self.classes)

    @property
    def parts(self) -> tuple[Program, ...]:
        """It, and what other constructions have besides."""
        return (self, *self.also)

    @property
    def written_classes(self) -> tuple[tuple[FoldedClass, Program], ...]:
        """All classes, each with the program that it is of; the root's is the last."""
        *inner, root = ((made, self) for made in self.classes)
        return (*inner, *((made, other) for other in self.also for made in other.classes), root)

    @property
    def names(self) -> frozenset[str]:
        """Of all classes, functions and definitions."""
        classes = {made.name for part in self.parts for made in part.classes}
        functions = {made.name for part in self.parts for made in part.functions}
        return frozenset(classes | functions | {made.name for part in self.parts for made in part.definitions})

    @cached_property
    def configurations(self) -> tuple[ConfigurationClass, ...]:
        """The configurations that constructors take."""
        return configurations_of(self.classes)

    @property
    def arguments(self) -> dict[str, syntax.Expr]:
        """What the root's constructor is given to make the model that is translated, but for defaults."""
        return constructed_with(self.classes[-1], self.configurations)


def with_functions(program: Program, functions: Functions) -> Program:
    """A program with those functions that its classes call, and those that these call.

    Args:
        program: its classes.
        functions: each behind those that it calls.
    """
    bodies = [made.body for made in program.classes if made.body is not None]
    read = names_in(*(part for body in bodies for part in (*body.statements, body.returns)))
    called: list[WrittenFunction] = []
    for function in reversed(list(functions.values())):
        if function.name in read:
            called.insert(0, function)
            read |= names_in(*function.statements, function.returns)
    return replace(program, functions=tuple(called))
