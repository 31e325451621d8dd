"""Context while constructors are translated: the class around a function, and the construction."""

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
    """The class in which a function is written.

    Attributes:
        original: the original class.
        attributes: the attributes of ``self`` that are needed; grows.
        modules: names of the modules and tensors that the original holds.
        written: those of them that the written class holds.
        tensors: names of parameters and buffers → their initial values in the instances.
        is_sequential: whether it holds the items of a Sequential.
        is_list: whether it holds the items of a list.
        methods: names of called methods → their functions; grows.
        static: names of static methods; grows.
        instances: the original's instances.
        tables: names of buffers that may be computed as in the original's statements.
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
        """Add the methods that override those that a base's constructor calls.

        Args:
            called: class → names of the methods that its constructor calls.
        """
        for base in self.original.__mro__[1:]:
            for name in called.get(base, ()):
                method = inspect.getattr_static(self.original, name)
                if isinstance(method, FunctionType) and method is not inspect.getattr_static(base, name):
                    self.methods[name] = method

    def take_static_methods(self, read: Iterable[str]) -> None:
        """Add the static methods among the names of attributes that are read anywhere."""
        for name in sorted(read):
            method = inspect.getattr_static(self.original, name, None)
            function = method.__func__ if isinstance(method, staticmethod) else None
            if isinstance(function, FunctionType) and is_own_function(function):
                self.static.add(name)
                self.methods[name] = function


class Known:
    """What is known about a construction.

    Args:
        calls: its constructor calls.
        forms: their source forms.
        values: writes classes that are passed as values.
        names: resolves names from outside a function.

    Attributes:
        with_options: functions that create a tensor with the options; grows.
    """

    def __init__(self, calls: ConstructionCalls, forms: CallForms, values: ClassValues, names: Names) -> None:
        self.calls, self.forms, self.values, self.names = calls, forms, values, names
        self._takes_options: dict[FunctionType, bool] = {}
        self.with_options: set[FunctionType] = set()

    def add_with_options(self, function: FunctionType) -> None:
        """Record a function that creates a tensor with the options, so that its callers pass them."""
        if function not in self.with_options:
            self.with_options.add(function)
            self._takes_options.clear()

    def takes_options(self, function: Any) -> bool:
        """Whether a function creates modules, and therefore takes their options."""
        if not isinstance(function, FunctionType) or not is_own_function(function):
            return False
        if function not in self._takes_options:
            self._takes_options[function] = False  # for recursive functions
            definition = definition_of(function)
            count = 0 if definition is None else len(calls_of(definition))
            self._takes_options[function] = (
                function in self.with_options
                or any(self.calls.calls.get((function, number)) for number in range(count))
                or any(map(self.takes_options, self._functions_called(function)))
                or any(map(self.takes_options, self.in_its_place(function)))
            )
        return self._takes_options[function]

    def in_its_place(self, function: FunctionType) -> Iterator[FunctionType]:
        """The methods that may be called in a method's place: those that override it, and those that it overrides."""
        for cls in {type(module) for module in self.calls.modules.values()}:
            methods = [vars(base).get(function.__name__) for base in cls.__mro__]
            if function in methods and function.__name__ != "__init__":
                yield from (each for each in methods if isinstance(each, FunctionType) and each is not function)

    def _functions_called(self, function: FunctionType) -> Iterable[Any]:
        definition = definition_of(function)
        for node in calls_of(definition) if definition is not None else ():
            yield self.names.stands_for(node.func, function, set())
