"""What is known while constructors are written: the class around a function, and the construction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
        methods: that are called → their functions; grows.
        static: names of those that take no instance; grows.
        instances: of the original.
    """

    original: type
    attributes: set[str]
    modules: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()
    tensors: Mapping[str, tuple[syntax.Expr, ...]] = field(default_factory=dict)
    is_sequential: bool = False
    methods: dict[str, FunctionType] = field(default_factory=dict)
    static: set[str] = field(default_factory=set)
    instances: tuple[Any, ...] = ()


class Known:
    """Of a construction.

    Args:
        calls: of its constructors.
        forms: what is written for them.
        values: of classes that are handed on.
        names: of what stands outside of a function.
    """

    def __init__(self, calls: ConstructionCalls, forms: CallForms, values: ClassValues, names: Names) -> None:
        self.calls, self.forms, self.values, self.names = calls, forms, values, names
        self._with_options: dict[FunctionType, bool] = {}

    def takes_options(self, function: Any) -> bool:
        """Whether a function makes modules, and so is given what these are constructed with."""
        if not isinstance(function, FunctionType) or not is_own_function(function):
            return False
        if function not in self._with_options:
            self._with_options[function] = False  # one that calls itself
            definition = definition_of(function)
            count = 0 if definition is None else len(calls_of(definition))
            self._with_options[function] = any(
                self.calls.calls.get((function, number)) for number in range(count)
            ) or any(map(self.takes_options, self._functions_called(function)))
        return self._with_options[function]

    def _functions_called(self, function: FunctionType) -> Iterable[Any]:
        definition = definition_of(function)
        for node in calls_of(definition) if definition is not None else ():
            yield self.names.stands_for(node.func, function, set())
