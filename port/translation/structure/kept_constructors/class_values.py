"""Layer classes passed as values: ``norm_layer=nn.BatchNorm2d``."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import partial
from types import FunctionType
from typing import Any

from port.errors import NoPair
from port.translation.frontend.construction.constructed_values import ConstructedPart, ConstructedValue
from port.translation.frontend.construction.construction_calls import is_own
from port.translation.frontend.construction.replaced_functions import Replaced
from port.translation.frontend.meta_device import constructed_on_meta
from port.translation.ir import syntax
from port.translation.ir.expr import NoSource, literal
from port.translation.structure.constructors import OPTIONS, function_form, is_function, layer_form, shortened
from port.translation.structure.kept_constructors.also_written import AlsoWritten, is_own_function
from port.translation.structure.kept_constructors.cannot_keep import CannotKeep
from port.translation.structure.kept_constructors.passed_objects import arguments_of_object, is_same_object

_OPTIONS_PASSED = syntax.Keyword(None, syntax.Name(OPTIONS))
_SAMPLES = (4, 6)
"""Sizes with which a layer is constructed, to find the twin's arguments that do not depend on them."""
Key = tuple[type, str]


class ClassValues:
    """The twins of classes that are passed as values.

    Args:
        layers: the classes with a twin.
        names: original class → name of the written class.
        found: collects the functions and classes that are needed.
        replaced: layers that replace others after the original's construction.
    """

    def __init__(
        self, layers: frozenset[type], names: Mapping[type, str], found: AlsoWritten, replaced: Replaced
    ) -> None:
        self._layers, self._names, self._found, self._replaced = layers, names, found, replaced
        self._needed: dict[Key, set[str]] = {}

    def is_layer(self, value: Any) -> bool:
        """Whether a value is a layer class with a twin, or a partial of one."""
        import torch

        cls = value.func if isinstance(value, partial) else value
        if not isinstance(cls, type) or not issubclass(cls, torch.nn.Module):
            return False
        return cls in self._layers or not is_own(cls)

    def called(self, value: Any, name: syntax.Expr, made: syntax.Call) -> syntax.Call:
        """Construct a layer through the name of a passed class; drop arguments that the class's twin sets anyway.

        Args:
            value: the class, or a partial of it.
            name: the name of the class in the surrounding code.
            made: the construction of the layer's twin.
        """
        constants = self._constants(value)
        made = shortened(made)
        dropped = {each.arg for each in made.keywords if each.arg and constants.get(each.arg) == each.value}
        self._needed.setdefault(_key(value), set()).update(dropped)
        return syntax.Call(name, made.args, tuple(each for each in made.keywords if each.arg not in dropped))

    def expression(self, value: Any) -> syntax.Expr:
        """Write a layer class, or a partial of one.

        Raises:
            CannotKeep: it has no source form.
        """
        sample = _sample(value, _SAMPLES[0])
        try:
            if is_function(sample):
                return self.function(sample)
            made = layer_form(sample)
        except NoPair as error:
            raise CannotKeep(str(error)) from error
        assert isinstance(made, syntax.Call)
        needed = self._needed.get(_key(value))
        constants = {name: each for name, each in self._constants(value).items() if needed is None or name in needed}
        if not constants:
            return made.func
        keywords = tuple(syntax.Keyword(name, each) for name, each in constants.items())
        return syntax.Call(syntax.Name("partial"), (made.func,), keywords)

    def function(self, layer: Any) -> syntax.Expr:
        """Write a layer that is a function, or the one that replaces it."""
        return function_form(self._replaced.get(type(layer), layer))

    def value(self, thing: Any) -> syntax.Expr:
        """Write a value passed to a constructor: numbers, classes, and trees of them.

        Raises:
            CannotKeep: it has no source form.
        """
        import torch

        match thing:
            case ConstructedValue(made_by=made_by, arguments=arguments):
                return self._made(made_by, arguments)
            case ConstructedPart(of=of, name=name):
                return syntax.Attribute(self.value(of), name)
            case partial() if not self.is_layer(thing):
                parts = tuple(map(self.value, thing.args))
                keywords = tuple(syntax.Keyword(name, self.value(each)) for name, each in thing.keywords.items())
                return syntax.Call(syntax.Name("partial"), (self.value(thing.func), *parts), keywords)
            case tuple() if type(thing) is tuple:
                return syntax.Tuple(tuple(map(self.value, thing)))
            case list() if type(thing) is list:
                return syntax.List(tuple(map(self.value, thing)))
            case dict() if type(thing) is dict:
                return syntax.Dict(tuple(map(self.value, thing)), tuple(map(self.value, thing.values())))
        if self.is_layer(thing):
            return self.expression(thing)
        if isinstance(thing, type) and thing in self._names:
            return syntax.Name(self._names[thing])
        if isinstance(thing, FunctionType) and is_own_function(thing):
            return self._found.function(thing)
        parameters = arguments_of_object(thing)
        if parameters is not None and not isinstance(thing, torch.nn.Module):
            self._found.classes[type(thing)] = None
            keywords = tuple(syntax.Keyword(name, self.value(each)) for name, each in parameters.items())
            return syntax.Call(syntax.Name(type(thing).__name__), (), keywords)
        try:
            return literal(thing)
        except NoSource:
            raise CannotKeep(f"the {type(thing).__name__} passed to a constructor has no source form") from None

    def default(self, thing: Any) -> syntax.Expr:
        """Write a parameter's default: None for a class that is not written (see `is_unwritten`).

        Raises:
            CannotKeep: it has no source form.
        """
        return syntax.Const(None) if self.is_unwritten(thing) else self.value(thing)

    def is_unwritten(self, thing: Any) -> bool:
        """Whether a value is a user's module class that the model does not use, and that is therefore not written."""
        import torch

        is_module = isinstance(thing, type) and issubclass(thing, torch.nn.Module) and is_own(thing)
        return is_module and thing not in self._names and not self.is_layer(thing)

    def _made(self, made_by: Any, arguments: Mapping[str, Any]) -> syntax.Expr:
        """Write the call that creates a module or object passed to a constructor."""
        import torch

        parameters = inspect.signature(made_by).parameters
        keywords = [
            syntax.Keyword(name, self.value(each))
            for name, each in arguments.items()
            if name not in parameters or not is_same_object(each, parameters[name].default)
        ]
        if isinstance(made_by, FunctionType) and is_own_function(made_by):
            return syntax.Call(self._found.function(made_by), (), (*keywords, _OPTIONS_PASSED))
        if made_by in self._names and issubclass(made_by, torch.nn.Module):
            return syntax.Call(syntax.Name(self._names[made_by]), (), (*keywords, _OPTIONS_PASSED))
        if isinstance(made_by, type) and is_own(made_by) and not issubclass(made_by, torch.nn.Module):
            self._found.classes[made_by] = None
            return syntax.Call(syntax.Name(made_by.__name__), (), tuple(keywords))
        raise CannotKeep(f"the {made_by.__name__} passed to a constructor has no source form")

    def _constants(self, value: Any) -> dict[str, syntax.Expr]:
        """Arguments of a class's twin that are the same for every construction, except defaults."""
        one, other = (_keywords(_sample(value, size)) for size in _SAMPLES)
        return {name: each for name, each in one.items() if other.get(name) == each}


def _keywords(sample: Any) -> dict[str, syntax.Expr]:
    try:
        made = layer_form(sample)
    except NoPair as error:
        raise CannotKeep(str(error)) from error
    assert isinstance(made, syntax.Call)
    made = shortened(made)
    return {each.arg: each.value for each in made.keywords if each.arg not in (None, "rngs", "dtype", "param_dtype")}


def _sample(value: Any, size: int) -> Any:
    """Construct a layer of a class.

    Raises:
        CannotKeep: its constructor's arguments are unknown.
    """
    cls, keywords = (value.func, value.keywords) if isinstance(value, partial) else (value, {})
    parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
    required = {
        each.name: size
        for each in parameters
        if each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    }
    try:
        return constructed_on_meta(lambda: cls(**{**required, **keywords}))()
    except Exception as error:
        raise CannotKeep(f"{cls.__name__} cannot be constructed to find its twin's arguments") from error


def _key(value: Any) -> Key:
    cls: Any = value.func if isinstance(value, partial) else value
    return cls, repr(value.keywords) if isinstance(value, partial) else ""
