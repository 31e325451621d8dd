"""The written parts of a model: classes, functions and definitions."""

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
    """Classes and functions, innermost first.

    Attributes:
        classes: the last one is the root's.
        tree: the tree of torch modules.
        numbers: path of an instance → its parameters that receive whole numbers (see `number_parameters`).
        annotations: path of an instance → annotations of its parameters and results in any call (see `annotations_of`).
        layers: paths of the layers that the written module holds.
        variables: Flax's dotted paths of the modules' own parameters and buffers.
        options: path of an instance → defaults of its call's parameters that may hold no array.
        held: the values of the root call's parameters in each example call.
        untaken: the root's options that have one value in all example calls.
        functions: the functions that the classes call.
        definitions: functions and classes of the original that constructors use.
        imports: import lines that these need.
        also: programs of other constructions of the model, with what only those have.
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
        """Whether its constructors are translated from the original's source."""
        return any(made.kept is not None for made in self.classes)

    @property
    def parts(self) -> tuple[Program, ...]:
        """The program and the additional parts of other constructions."""
        return (self, *self.also)

    @property
    def written_classes(self) -> tuple[tuple[FoldedClass, Program], ...]:
        """All classes, each with the program that it belongs to; the root's is last."""
        *inner, root = ((made, self) for made in self.classes)
        return (*inner, *((made, other) for other in self.also for made in other.classes), root)

    @property
    def names(self) -> frozenset[str]:
        """The names of all classes, functions and definitions."""
        classes = {made.name for part in self.parts for made in part.classes}
        functions = {made.name for part in self.parts for made in part.functions}
        return frozenset(classes | functions | {made.name for part in self.parts for made in part.definitions})

    @cached_property
    def configurations(self) -> tuple[ConfigurationClass, ...]:
        """The configurations that constructors take."""
        return configurations_of(self.classes)

    @property
    def arguments(self) -> dict[str, syntax.Expr]:
        """The arguments of the root's constructor that build the translated model, except defaults."""
        return constructed_with(self.classes[-1], self.configurations)


def with_functions(program: Program, functions: Functions) -> Program:
    """Add the functions that a program's classes call, directly or indirectly.

    Args:
        program: the program with its classes.
        functions: the functions, each after those that it calls.
    """
    bodies = [made.body for made in program.classes if made.body is not None]
    read = names_in(*(part for body in bodies for part in (*body.statements, body.returns)))
    called: list[WrittenFunction] = []
    for function in reversed(list(functions.values())):
        if function.name in read:
            called.insert(0, function)
            read |= names_in(*function.statements, function.returns)
    return replace(program, functions=tuple(called))
