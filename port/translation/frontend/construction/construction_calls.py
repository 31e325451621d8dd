"""Record which calls in the constructors' source made which modules, and with which arguments."""

from __future__ import annotations

import ast
import inspect
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import FunctionType, MethodType
from typing import Any
from unittest import mock

import torch

from port.translation.frontend.construction.arguments import TrackedArguments
from port.translation.frontend.construction.constructed import is_alike
from port.translation.frontend.construction.constructed_values import Call
from port.translation.frontend.construction.function_trees import calls_of, definition_of, with_calls_intercepted
from port.translation.frontend.construction.replaced_functions import Replaced, put_in_place
from port.translation.frontend.construction.sizes import Sizes
from port.translation.frontend.construction.true_bools import with_true_bools
from port.translation.frontend.meta_device import parameters_on_meta
from port.translation.frontend.python_random import reseeded
from port.translation.frontend.source_locations import is_users

Place = tuple[FunctionType, int]
"""A function of the original, and the number of a call in it."""
INHERITED = -1
"""The call number for a torch layer's constructor that a user's class inherits."""


@dataclass(frozen=True)
class ConstructionCall:
    """A call that returned a module or a parameter.

    Attributes:
        called: a module class, a partial of one, a function that returns a module, or ``nn.Parameter``.
        module: the result.
    """

    called: Any
    module: torch.nn.Module | torch.nn.Parameter


@dataclass(frozen=True)
class ConstructionCalls:
    """A reconstructed model, with the calls that made it.

    Attributes:
        modules: path → module; its numbers remember the arguments of the call that made it.
        layer_arguments: path of a torch layer → its constructor's arguments by name.
        sizes: name of a parameter or buffer → its shape.
        calls: place → the calls there that returned modules or parameters.
        reached: the places of all calls that ran.
        root: the arguments of the root's class by name.
        numbers: a call's number, the ``constructor`` of its arguments' origins → its place.
        owners: place → the class of the module whose method is called there.
        written: layer classes that are written with their constructors, as the user's classes are.
        apart: modules that were made as arguments and are not submodules of the model, though parts of them may be.
        arguments: a module's id → its constructor's arguments by name.
        replaced: class → the layer that replaces it after construction.
    """

    modules: Mapping[str, torch.nn.Module]
    layer_arguments: Mapping[str, Mapping[str, Any]]
    sizes: Mapping[str, tuple[int, ...]]
    calls: Mapping[Place, tuple[ConstructionCall, ...]]
    reached: frozenset[Place]
    root: Mapping[str, Any]
    numbers: Mapping[int, Place]
    owners: Mapping[Place, type]
    written: frozenset[type] = frozenset()
    apart: tuple[torch.nn.Module, ...] = ()
    arguments: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    replaced: Replaced = field(default_factory=dict)


def construction_calls(
    module: torch.nn.Module,
    construct: Callable[[Call], Any],
    layers: frozenset[type] = frozenset(),
    written: frozenset[type] = frozenset(),
    argument_classes: frozenset[type] = frozenset(),
    replaced: Replaced | None = None,
) -> ConstructionCalls | None:
    """Reconstruct a model and record the calls in its constructors; None where the result is a different model.

    Args:
        module: the existing model.
        construct: constructs a model like it, before replacements; makes its arguments with the function it receives.
        layers: classes of the layers that are kept whole.
        written: those of them that are written with their constructors.
        argument_classes: classes of modules that are made as arguments.
        replaced: class → the layer that replaces it after construction.
    """
    layers -= written
    recorder = _CallRecorder(layers, written)
    sizes = Sizes()
    classes = {cls for each in module.modules() for cls in type(each).__mro__ if issubclass(cls, torch.nn.Module)}
    classes |= {base for cls in argument_classes for base in cls.__mro__ if issubclass(base, torch.nn.Module)}
    own = {cls for cls in classes - layers if is_own(cls)}
    try:
        with reseeded(0), recorder.watching(own), parameters_on_meta(), sizes:
            made = construct(recorder.call)
    except Exception:  # a constructor may reject a number that is not exactly an int or a float
        return None
    named = dict(made.named_modules(remove_duplicate=False))
    put_in_place(made, replaced or {})
    if not is_alike(made, module) or id(made) not in recorder.of_own:
        return None
    tensors = (*made.named_parameters(remove_duplicate=False), *made.named_buffers(remove_duplicate=False))
    return ConstructionCalls(
        named,
        {
            path: recorder.layer_arguments[id(each)]
            for path, each in named.items()
            if id(each) in recorder.layer_arguments
        },
        {name: found for name, tensor in tensors if (found := sizes.of(tensor)) is not None},
        {place: tuple(found) for place, found in recorder.calls.items()},
        frozenset(recorder.reached),
        recorder.of_own[id(made)],
        recorder.numbers,
        recorder.owners,
        written,
        tuple(each for each in recorder.argument_modules if all(each is not held for held in named.values())),
        {id(each): recorder.of_own[id(each)] for each in named.values() if id(each) in recorder.of_own},
        replaced or {},
    )


def inherits_a_layers_constructor(cls: type) -> bool:
    """Whether a user's class inherits the constructor of a torch layer."""
    construct = cls.__init__  # type: ignore[misc]
    if not is_own(cls) or not isinstance(construct, FunctionType) or construct is torch.nn.Module.__init__:
        return False
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    kinds = [each.kind for each in inspect.signature(construct).parameters.values()]
    is_container = issubclass(cls, torch.nn.Sequential | torch.nn.ModuleList | torch.nn.ModuleDict)
    return construct.__module__.startswith("torch.nn.") and not is_container and not set(kinds) & set(several)


def is_own(cls: type) -> bool:
    """Whether a class is the user's or a library's, not torch's."""
    return cls.__module__.partition(".")[0] not in ("torch", "builtins")


@dataclass
class _CallRecorder:
    layers: frozenset[type]
    written: frozenset[type]
    calls: dict[Place, list[ConstructionCall]] = field(default_factory=lambda: defaultdict(list))
    reached: set[Place] = field(default_factory=set)
    layer_arguments: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    of_own: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    numbers: dict[int, Place] = field(default_factory=dict)
    owners: dict[Place, type] = field(default_factory=dict)
    argument_modules: list[torch.nn.Module] = field(default_factory=list)
    _seen: dict[FunctionType, FunctionType | None] = field(default_factory=dict)
    _texts: dict[Place, ast.Call] = field(default_factory=dict)
    _arguments: TrackedArguments = field(default_factory=TrackedArguments)
    _held: list[Any] = field(default_factory=list)  # an id is unique only while its object is alive

    @contextmanager
    def watching(self, own: set[type]) -> Iterator[None]:
        """Record calls in the constructors of these classes, within the context."""
        watched: dict[type, Callable[..., None]] = {}
        for cls in own:
            construct = vars(cls).get("__init__")
            if isinstance(construct, FunctionType):
                watched[cls] = self._constructor(construct)
            elif inherits_a_layers_constructor(cls):
                watched[cls] = self._inherited(cls.__init__)  # type: ignore[misc]
        with ExitStack() as stack:
            for cls, constructor in watched.items():
                stack.enter_context(mock.patch.object(cls, "__init__", constructor))
            yield

    def call(self, called: Call, /, **arguments: Any) -> Any:
        """Make an argument of the root, and record the calls in it."""
        made = self._watched(called)(**arguments)
        if isinstance(made, torch.nn.Module):
            self.argument_modules.append(made)
        return made

    def _constructor(self, construct: FunctionType) -> Callable[..., None]:
        seen = self._with_calls_intercepted(construct) or construct
        signature = inspect.signature(construct)

        def constructor(module: Any, *args: Any, **kwargs: Any) -> None:
            if id(module) not in self.of_own:
                bound = signature.bind(module, *args, **kwargs)
                bound.apply_defaults()
                self.of_own[id(module)] = dict(list(bound.arguments.items())[1:])
                self._held.append(module)
            seen(module, *args, **kwargs)

        return constructor

    def _inherited(self, construct: Callable[..., None]) -> Callable[..., None]:
        """Wrap an inherited layer constructor, so that its numbers have their arguments as origins."""
        signature = inspect.signature(construct)

        def constructor(module: Any, *args: Any, **kwargs: Any) -> None:
            bound = signature.bind(module, *args, **kwargs)
            bound.apply_defaults()
            arguments = dict(list(bound.arguments.items())[1:])
            number = len(self.numbers)
            self.numbers[number] = construct, INHERITED  # type: ignore[assignment]
            self.of_own.setdefault(id(module), arguments)
            self._held.append(module)
            known = {name: self._arguments.known(value, number, name) for name, value in arguments.items()}
            with_true_bools(partial(construct, module), **known)

        return constructor

    def _with_calls_intercepted(self, function: FunctionType) -> FunctionType | None:
        if function not in self._seen:
            self._seen[function] = with_calls_intercepted(function, partial(self._called, function))
            definition = definition_of(function)
            for number, node in enumerate(calls_of(definition) if definition is not None else ()):
                self._texts[function, number] = node
        return self._seen[function]

    def _called(self, function: FunctionType, place: int, called: Any, /, *args: Any, **kwargs: Any) -> Any:
        where = function, place
        self.reached.add(where)
        number = len(self.numbers)
        self.numbers[number] = where
        owner = args[0] if called is setattr and args else getattr(called, "__self__", None)
        if isinstance(owner, torch.nn.Module):
            self.owners[where] = type(owner)
        inside = called.func if isinstance(called, partial) else called
        is_layer = isinstance(inside, type) and (inside in self.layers or not is_own(inside))
        if is_layer or _is_torchs(inside):
            args, kwargs = self._known(self._texts[where], number, args, kwargs)
        result = (partial(with_true_bools, called) if is_layer else self._watched(called))(*args, **kwargs)
        if isinstance(result, torch.nn.Module) and is_layer:
            self._note(result, called, args, kwargs)
        elif isinstance(called, MethodType) and type(called.__self__) in self.written and _is_torchs(inside):
            self._note(called.__self__, called, args, kwargs)
        if isinstance(result, torch.nn.Module) or (called is torch.nn.Parameter and isinstance(result, called)):
            self._held.append(result)
            self.calls[where].append(ConstructionCall(called, result))
        return result

    def _watched(self, called: Any) -> Callable[..., Any]:
        """Wrap a user's function so that its calls are recorded too; return anything else unchanged."""
        match called:
            case FunctionType() if _is_of_a_package(called):
                return self._with_calls_intercepted(called) or called
            case MethodType(__func__=FunctionType() as function, __self__=owner) if _is_of_a_package(function):
                seen = self._with_calls_intercepted(function)
                return called if seen is None else MethodType(seen, owner)
            case partial(func=FunctionType() as function):
                return partial(self._watched(function), *called.args, **called.keywords)
        return called  # type: ignore[no-any-return]

    def _known(self, node: ast.Call, number: int, args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Attach origins to a call's arguments: the source text of each."""
        texts: list[str] = []
        for place, argument in enumerate(node.args):
            if isinstance(argument, ast.Starred):
                count = len(args) - place
                texts += [f"{_text(argument.value)}[{item}]" for item in range(count)]
                break
            texts.append(_text(argument))
        named = {keyword.arg: _text(keyword.value) for keyword in node.keywords if keyword.arg is not None}
        gathered = [keyword.value for keyword in node.keywords if keyword.arg is None]
        for name in kwargs.keys() - named.keys():
            if len(gathered) == 1 and isinstance(gathered[0], ast.Name):
                named[name] = f"{gathered[0].id}[{name!r}]"
        known = self._arguments.known
        return (
            tuple(known(each, number, text) for each, text in zip(args, texts, strict=False)) + args[len(texts) :],
            {name: known(each, number, named[name]) if name in named else each for name, each in kwargs.items()},
        )

    def _note(self, layer: Any, called: Any, args: Any, kwargs: Any) -> None:
        """Record the arguments of a torch layer, made by a call of its class or of its constructor."""
        of_partial = called if isinstance(called, partial) else partial(called)
        try:
            construct: Any = called.__func__ if isinstance(called, MethodType) else type(layer).__init__
            bound = inspect.signature(construct).bind(
                layer, *of_partial.args, *args, **{**of_partial.keywords, **kwargs}
            )
        except TypeError:
            return
        bound.apply_defaults()
        kinds = bound.signature.parameters
        several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        self.layer_arguments[id(layer)] = {
            name: value for name, value in list(bound.arguments.items())[1:] if kinds[name].kind not in several
        }


def _text(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Call | ast.Constant) else f"({text})"


def _is_torchs(called: Any) -> bool:
    """Whether a callable is a function of torch, or a tensor's method."""
    owner = getattr(called, "__module__", None) or type(getattr(called, "__self__", None)).__module__
    return not isinstance(called, type) and owner.partition(".")[0] == "torch"


def _is_of_a_package(function: FunctionType) -> bool:
    """Whether a function is the user's or an installed library's, not the standard library's."""
    return function.__module__.partition(".")[0] not in sys.stdlib_module_names and is_users(
        function.__code__.co_filename
    )
