"""What is known while constructors are written: the class around a function, and the construction."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

from port.translation.frontend.construction.construction_calls import ConstructionCalls
from port.translation.frontend.construction.function_trees import calls_of, definition_of
from port.translation.ir import syntax
from port.translation.structure.kept_constructors.also_written import is_own_function
from port.translation.structure.kept_constructors.call_forms import CallForms
from port.translation.structure.kept_constructors.class_values import ClassValues
from port.translation.structure.kept_constructors.names import Names


@dataclass
class Owner:
    """The class that a function is written in.

    Attributes:
        original: class.
        attributes: of ``self`` that are needed; grows.
        modules: names of modules and tensors that the original holds.
        written: those of them that the written one holds.
        tensors: names of parameters and buffers → what they start as in its instances.
        is_sequential: whether what it holds are the items of a Sequential.
        is_list: whether what it holds are the items of a list.
        methods: that are called → their functions; grows.
        static: names of those that take no instance; grows.
        instances: of the original.
        tables: names of buffers that may be worked out as the original's statements do.
    """

    original: type
    attributes: set[str]
    modules: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()
    tensors: Mapping[str, tuple[syntax.Expr, ...]] = field(default_factory=dict)
    is_sequential: bool = False
    is_list: bool = False
    methods: dict[str, FunctionType] = field(default_factory=dict)
    static: set[str] = field(default_factory=set)
    instances: tuple[Any, ...] = ()
    tables: frozenset[str] = frozenset()

    def take_overriding_methods(self, called: Mapping[type, Collection[str]]) -> None:
        """Take in the methods that take the place of others, which the constructor of a base calls.

        Args:
            called: classes → the names of the methods that their constructors call.
        """
        for base in self.original.__mro__[1:]:
            for name in called.get(base, ()):
                method = inspect.getattr_static(self.original, name)
                if isinstance(method, FunctionType) and method is not inspect.getattr_static(base, name):
                    self.methods[name] = method

    def take_static_methods(self, read: Iterable[str]) -> None:
        """Take in the methods without an instance among the names that are read of anything: of a class, say."""
        for name in sorted(read):
            method = inspect.getattr_static(self.original, name, None)
            function = method.__func__ if isinstance(method, staticmethod) else None
            if isinstance(function, FunctionType) and is_own_function(function):
                self.static.add(name)
                self.methods[name] = function


class Known:
    """Of a construction.

    Args:
        calls: of its constructors.
        forms: what is written for them.
        values: of classes that are handed on.
        names: of what stands outside of a function.

    Attributes:
        given_options: the functions in which a tensor is made with the options; grows.
    """

    def __init__(self, calls: ConstructionCalls, forms: CallForms, values: ClassValues, names: Names) -> None:
        self.calls, self.forms, self.values, self.names = calls, forms, values, names
        self._with_options: dict[FunctionType, bool] = {}
        self.given_options: set[FunctionType] = set()

    def give_options(self, function: FunctionType) -> None:
        """Take note of a function in which a tensor is made with the options: whoever calls it has to give them."""
        if function not in self.given_options:
            self.given_options.add(function)
            self._with_options.clear()

    def takes_options(self, function: Any) -> bool:
        """Whether a function makes modules, and so is given what these are constructed with."""
        if not isinstance(function, FunctionType) or not is_own_function(function):
            return False
        if function not in self._with_options:
            self._with_options[function] = False  # one that calls itself
            definition = definition_of(function)
            count = 0 if definition is None else len(calls_of(definition))
            self._with_options[function] = (
                function in self.given_options
                or any(self.calls.calls.get((function, number)) for number in range(count))
                or any(map(self.takes_options, self._functions_called(function)))
                or any(map(self.takes_options, self.in_its_place(function)))
            )
        return self._with_options[function]

    def in_its_place(self, function: FunctionType) -> Iterator[FunctionType]:
        """The methods of other classes that may be called where a method is: what overrides it, what it overrides."""
        for cls in {type(module) for module in self.calls.modules.values()}:
            methods = [vars(base).get(function.__name__) for base in cls.__mro__]
            if function in methods and function.__name__ != "__init__":
                yield from (each for each in methods if isinstance(each, FunctionType) and each is not function)

    def _functions_called(self, function: FunctionType) -> Iterable[Any]:
        definition = definition_of(function)
        for node in calls_of(definition) if definition is not None else ():
            yield self.names.stands_for(node.func, function, set())
