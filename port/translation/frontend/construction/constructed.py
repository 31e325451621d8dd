"""Construct a model with numbers that remember their origin."""

from __future__ import annotations

import copy
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any
from unittest import mock

import torch
from torch.nn.parameter import is_lazy
from torch.nn.utils import parametrize

from port.translation.frontend.construction.arguments import TrackedArguments
from port.translation.frontend.construction.draws import Draws, OpenDraw
from port.translation.frontend.construction.python_functions import keeping_origins
from port.translation.frontend.construction.reconstruction import constructor_arguments
from port.translation.frontend.construction.sizes import Sizes
from port.translation.frontend.construction.tables import TableFormula, TableFormulas
from port.translation.frontend.meta_device import parameters_on_meta
from port.translation.frontend.python_random import reseeded
from port.translation.ir.origin import ConstructorArgument


@dataclass(frozen=True)
class Construction:
    """A reconstructed model.

    Attributes:
        modules: path → module, whose numbers remember their origin.
        constructors: path → the number of its constructor.
        arguments: path → its constructor's arguments by name, with the caller's origins.
        repeats: number of a constructor → the ``n`` of each ``range(n)`` in it.
        layers: path of a torch layer → its constructor's arguments by name.
        sizes: name of a parameter or buffer → its shape.
        tables: name of a buffer → its formula and its values.
        draws: name of a parameter → how it is drawn, where a number of the draw has an origin.
        objects: returns the argument that a configuration comes from; None where there is none.
    """

    modules: Mapping[str, Any]
    constructors: Mapping[str, int]
    arguments: Mapping[str, Mapping[str, Any]]
    repeats: Mapping[int, tuple[int, ...]]
    layers: Mapping[str, Mapping[str, Any]]
    sizes: Mapping[str, tuple[int, ...]]
    tables: Mapping[str, tuple[TableFormula, torch.Tensor]]
    draws: Mapping[str, OpenDraw]
    objects: Callable[[Any], ConstructorArgument | None]


def constructed(module: Any, construct: Callable[[], Any] | None = None) -> Construction | None:
    """Reconstruct a model and record the arguments of every constructor; None where the result is a different model.

    Args:
        module: the existing model.
        construct: constructs a model like it; by default its class, with inferred arguments.
    """
    if construct is None:
        arguments = constructor_arguments(module)
        if arguments is None:
            return None
        own = arguments
        construct = lambda: type(module)(*copy.deepcopy(own.args), **copy.deepcopy(own.kwargs))  # noqa: E731
    recording = _Recording()
    sizes, tables, draws = Sizes(), TableFormulas(), Draws()
    classes = {cls for each in module.modules() for cls in type(each).__mro__ if issubclass(cls, torch.nn.Module)}
    users = {cls for cls in classes if not cls.__module__.startswith("torch.")}
    files = [sys.modules[name] for name in sorted({cls.__module__ for cls in users}) if name in sys.modules]
    try:
        watching = recording.watching(classes, users), keeping_origins(files, recording.note_range)
        with reseeded(0), watching[0], watching[1], parameters_on_meta(), sizes, tables, draws:
            made = construct()
    except Exception:  # a constructor may reject a number that is not exactly an int or a float
        return None
    if not is_alike(made, module):
        return None
    named = dict(made.named_modules(remove_duplicate=False))
    numbers = {path: recording.numbers[id(each)] for path, each in named.items() if id(each) in recording.numbers}
    tensors = (*made.named_parameters(remove_duplicate=False), *made.named_buffers(remove_duplicate=False))
    return Construction(
        named,
        numbers,
        {path: recording.constructed_with[number] for path, number in numbers.items()},
        {number: tuple(found) for number, found in recording.repeats.items()},
        {path: recording.layers[id(each)] for path, each in named.items() if id(each) in recording.layers},
        {name: found for name, tensor in tensors if (found := sizes.of(tensor)) is not None},
        {name: (table, tensor) for name, tensor in tensors if (table := tables.of(tensor)) is not None},
        {name: draw for name, tensor in tensors if (draw := draws.of(tensor)) is not None},
        recording.arguments.origin_of_object,
    )


class _Recording:
    """Records the calls of constructors."""

    def __init__(self) -> None:
        self.arguments = TrackedArguments()
        self.numbers: dict[int, int] = {}
        self.constructed_with: list[dict[str, Any]] = []
        self.repeats: dict[int, list[int]] = {}
        self.layers: dict[int, dict[str, Any]] = {}
        self._gathered: dict[int, tuple[tuple[Any, ...], Mapping[str, Any]] | None] = {}
        self._inside: list[int] = []
        self._held: list[Any] = []  # an id is unique only while its module is alive

    @contextmanager
    def watching(self, classes: set[type], users: set[type]) -> Iterator[None]:
        """Record the arguments of constructors within the context; those of user classes get origins attached."""
        with ExitStack() as stack:
            for cls in classes - {torch.nn.Module}:
                if "__init__" in vars(cls):
                    watched = self._known if cls in users else self._noted
                    stack.enter_context(mock.patch.object(cls, "__init__", watched(vars(cls)["__init__"])))
            yield

    def note_range(self, count: int) -> None:
        """Record a ``range(count)`` of the constructor that is running."""
        if self._inside:
            self.repeats.setdefault(self._inside[-1], []).append(count)

    def _known(self, construct: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(construct)

        @wraps(construct)
        def constructor(module: Any, *args: Any, **kwargs: Any) -> None:
            bound = signature.bind(module, *args, **kwargs)
            if id(module) in self.numbers:  # a base class's constructor, called from the subclass's
                self._record_passed_on(self.numbers[id(module)], bound)
                construct(module, *args, **kwargs)
                return
            number = len(self.constructed_with)
            self.numbers[id(module)] = number
            self._held.append(module)
            self._gathered[number] = _gathered(bound)
            arguments = _single_arguments(bound)
            self.constructed_with.append(arguments)
            for name, value in arguments.items():
                bound.arguments[name] = self.arguments.known(value, number, name)
            self._inside.append(number)
            try:
                construct(*bound.args, **bound.kwargs)
            finally:
                self._inside.pop()

        return constructor

    def _record_passed_on(self, number: int, bound: inspect.BoundArguments) -> None:
        """Record what a class passes on to its base through ``*args`` and ``**kwargs``, under the base's names."""
        gathered = self._gathered[number]
        if gathered is None:
            return
        values, named = gathered
        itself = dict(list(bound.arguments.items())[1:])
        for name, value in _single_arguments(bound).items():
            is_passed_on = name not in itself or name in named or any(value is each for each in values)
            if is_passed_on and name not in self.constructed_with[number]:
                self.constructed_with[number][name] = value
        if not any(parameter.kind in _SEVERAL for parameter in bound.signature.parameters.values()):
            self._gathered[number] = None  # it passes nothing on unchanged

    def _noted(self, construct: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(construct)

        @wraps(construct)
        def constructor(module: Any, *args: Any, **kwargs: Any) -> None:
            if id(module) not in self.numbers and id(module) not in self.layers:
                self._held.append(module)
                self.layers[id(module)] = _single_arguments(signature.bind(module, *args, **kwargs))
            construct(module, *args, **kwargs)

        return constructor


def _single_arguments(bound: inspect.BoundArguments) -> dict[str, Any]:
    """Return a constructor's arguments and defaults by name, without ``*args`` and ``**kwargs``."""
    bound.apply_defaults()
    parameters = bound.signature.parameters
    return {name: value for name, value in list(bound.arguments.items())[1:] if parameters[name].kind not in _SEVERAL}


def _gathered(bound: inspect.BoundArguments) -> tuple[tuple[Any, ...], Mapping[str, Any]] | None:
    """Return the values of ``*args`` and ``**kwargs``; None for a constructor without ``**kwargs``."""
    kinds = {parameter.kind: name for name, parameter in bound.signature.parameters.items()}
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        return None
    values = bound.arguments.get(kinds.get(inspect.Parameter.VAR_POSITIONAL, ""), ())
    return values, bound.arguments.get(kinds[inspect.Parameter.VAR_KEYWORD], {})


_SEVERAL = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _kind(module: torch.nn.Module) -> Any:
    """Return a module's class; for a parametrized module, whose class is unique to it, the class's name and bases."""
    cls = type(module)
    return (cls.__name__, cls.__bases__) if parametrize.is_parametrized(module) else cls


def is_alike(made: Any, module: Any) -> bool:
    """Whether two models have the same modules, with parameters and buffers of the same shapes."""

    def form(of: Any) -> Any:
        modules = {path: _kind(each) for path, each in of.named_modules(remove_duplicate=False)}
        tensors = (*of.named_parameters(remove_duplicate=False), *of.named_buffers(remove_duplicate=False))
        return modules, {name: tuple(tensor.shape) for name, tensor in tensors if not is_lazy(tensor)}

    return isinstance(made, torch.nn.Module) and bool(form(made) == form(module))
