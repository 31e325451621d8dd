"""Construct a model with numbers that remember where they come from."""

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

from port.translation.frontend.construction.arguments import GivenArguments
from port.translation.frontend.construction.draws import Draws, OpenDraw
from port.translation.frontend.construction.python_functions import remembering
from port.translation.frontend.construction.reconstruction import constructor_arguments
from port.translation.frontend.construction.sizes import Sizes
from port.translation.frontend.construction.tables import TableFormula, TableFormulas
from port.translation.frontend.meta_device import parameters_on_meta
from port.translation.frontend.python_random import again
from port.translation.ir.origin import ConstructorArgument


@dataclass(frozen=True)
class Construction:
    """A model that was constructed anew.

    Attributes:
        modules: path → the module, whose numbers remember where they come from.
        constructors: path → the number of its constructor.
        arguments: path → what its constructor is given, by the parameters' names, as the code around it has it.
        repeats: number of a constructor → the ``n`` of each ``range(n)`` in it.
        layers: path of a layer of torch's → what its constructor is given.
        sizes: names of parameters and buffers → their lengths.
        tables: names of buffers → how they are worked out, and their numbers.
        draws: names of parameters → how they are drawn, where a number of that knows its origin.
        objects: says which argument a configuration is.
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
    """Construct a model anew, and see what each constructor is given; None where that gives another model.

    Args:
        module: one that was constructed before.
        construct: makes one like it; otherwise the arguments are found that its class makes one like it with.
    """
    if construct is None:
        arguments = constructor_arguments(module)
        if arguments is None:
            return None
        given = arguments
        construct = lambda: type(module)(*copy.deepcopy(given.args), **copy.deepcopy(given.kwargs))  # noqa: E731
    recording = _Recording()
    sizes, tables, draws = Sizes(), TableFormulas(), Draws()
    classes = {cls for each in module.modules() for cls in type(each).__mro__ if issubclass(cls, torch.nn.Module)}
    own = {cls for cls in classes if not cls.__module__.startswith("torch.")}
    files = [sys.modules[name] for name in sorted({cls.__module__ for cls in own}) if name in sys.modules]
    try:
        watching = recording.watching(classes, own), remembering(files, recording.note_range)
        with again(0), watching[0], watching[1], parameters_on_meta(), sizes, tables, draws:
            made = construct()
    except Exception:  # a constructor may ask more of a number than its value
        return None
    if not is_alike(made, module):
        return None
    named = dict(made.named_modules(remove_duplicate=False))
    numbers = {path: recording.numbers[id(each)] for path, each in named.items() if id(each) in recording.numbers}
    tensors = (*made.named_parameters(remove_duplicate=False), *made.named_buffers(remove_duplicate=False))
    return Construction(
        named,
        numbers,
        {path: recording.given[number] for path, number in numbers.items()},
        {number: tuple(found) for number, found in recording.repeats.items()},
        {path: recording.layers[id(each)] for path, each in named.items() if id(each) in recording.layers},
        {name: found for name, tensor in tensors if (found := sizes.of(tensor)) is not None},
        {name: (table, tensor) for name, tensor in tensors if (table := tables.of(tensor)) is not None},
        {name: draw for name, tensor in tensors if (draw := draws.of(tensor)) is not None},
        recording.arguments.origin_of_object,
    )


class _Recording:
    """What is seen while modules are constructed."""

    def __init__(self) -> None:
        self.arguments = GivenArguments()
        self.numbers: dict[int, int] = {}
        self.given: list[dict[str, Any]] = []
        self.repeats: dict[int, list[int]] = {}
        self.layers: dict[int, dict[str, Any]] = {}
        self._gathered: dict[int, tuple[tuple[Any, ...], Mapping[str, Any]] | None] = {}
        self._inside: list[int] = []
        self._held: list[Any] = []  # an id is a module's own only while it lives

    @contextmanager
    def watching(self, classes: set[type], own: set[type]) -> Iterator[None]:
        """Within it, what constructors are given is noted; those of one's own classes are given known arguments."""
        with ExitStack() as stack:
            for cls in classes - {torch.nn.Module}:
                if "__init__" in vars(cls):
                    watched = self._known if cls in own else self._noted
                    stack.enter_context(mock.patch.object(cls, "__init__", watched(vars(cls)["__init__"])))
            yield

    def note_range(self, count: int) -> None:
        """``range(count)`` is gone through."""
        if self._inside:
            self.repeats.setdefault(self._inside[-1], []).append(count)

    def _known(self, construct: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(construct)

        @wraps(construct)
        def constructor(module: Any, *args: Any, **kwargs: Any) -> None:
            bound = signature.bind(module, *args, **kwargs)
            if id(module) in self.numbers:  # a base class's, called from the class's own
                self._hand_on(self.numbers[id(module)], bound)
                construct(module, *args, **kwargs)
                return
            number = len(self.given)
            self.numbers[id(module)] = number
            self._held.append(module)
            self._gathered[number] = _gathered(bound)
            given = _single_arguments(bound)
            self.given.append(given)
            for name, value in given.items():
                bound.arguments[name] = self.arguments.known(value, number, name)
            self._inside.append(number)
            try:
                construct(*bound.args, **bound.kwargs)
            finally:
                self._inside.pop()

        return constructor

    def _hand_on(self, number: int, bound: inspect.BoundArguments) -> None:
        """Take in what a class gathers, ``*args`` and ``**kwargs``, and hands on to its base: by that one's names."""
        gathered = self._gathered[number]
        if gathered is None:
            return
        values, named = gathered
        itself = dict(list(bound.arguments.items())[1:])
        for name, value in _single_arguments(bound).items():
            is_handed_on = name not in itself or name in named or any(value is each for each in values)
            if is_handed_on and name not in self.given[number]:
                self.given[number][name] = value
        if not any(parameter.kind in _SEVERAL for parameter in bound.signature.parameters.values()):
            self._gathered[number] = None  # what that one's base is given, it says itself

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
    """What a constructor is given, and its defaults, by the parameters' names; but for ``*args`` and ``**kwargs``."""
    bound.apply_defaults()
    parameters = bound.signature.parameters
    return {name: value for name, value in list(bound.arguments.items())[1:] if parameters[name].kind not in _SEVERAL}


def _gathered(bound: inspect.BoundArguments) -> tuple[tuple[Any, ...], Mapping[str, Any]] | None:
    """What ``*args`` and ``**kwargs`` are; None of a constructor without the latter, which takes no other names."""
    kinds = {parameter.kind: name for name, parameter in bound.signature.parameters.items()}
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        return None
    values = bound.arguments.get(kinds.get(inspect.Parameter.VAR_POSITIONAL, ""), ())
    return values, bound.arguments.get(kinds[inspect.Parameter.VAR_KEYWORD], {})


_SEVERAL = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _kind(module: torch.nn.Module) -> Any:
    """A module's class; of a parametrized one, whose class is made for it alone, what that is made of."""
    cls = type(module)
    return (cls.__name__, cls.__bases__) if parametrize.is_parametrized(module) else cls


def is_alike(made: Any, module: Any) -> bool:
    """Whether two models have the same modules, and parameters and buffers of the same shapes."""

    def form(of: Any) -> Any:
        modules = {path: _kind(each) for path, each in of.named_modules(remove_duplicate=False)}
        tensors = (*of.named_parameters(remove_duplicate=False), *of.named_buffers(remove_duplicate=False))
        return modules, {name: tuple(tensor.shape) for name, tensor in tensors if not is_lazy(tensor)}

    return isinstance(made, torch.nn.Module) and bool(form(made) == form(module))
