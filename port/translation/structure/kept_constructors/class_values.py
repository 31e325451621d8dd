"""Classes of layers where the original hands them on: ``norm_layer=nn.BatchNorm2d``."""

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
from port.translation.structure.kept_constructors.given_objects import arguments_of_object, is_same_object

_OPTIONS_GIVEN = syntax.Keyword(None, syntax.Name(OPTIONS))
_SAMPLES = (4, 6)
"""What a layer is constructed with, to see what of its twin's construction does not depend on it."""
Key = tuple[type, str]


class ClassValues:
    """The twins of classes that are handed on.

    Args:
        layers: classes that have a twin.
        names: classes of the original's → what the written ones are called.
        found: takes in the functions that are needed.
        replaced: the layers that are in the place of others when the original has been constructed.
    """

    def __init__(
        self, layers: frozenset[type], names: Mapping[type, str], found: AlsoWritten, replaced: Replaced
    ) -> None:
        self._layers, self._names, self._found, self._replaced = layers, names, found, replaced
        self._needed: dict[Key, set[str]] = {}

    def is_layer(self, value: Any) -> bool:
        """Whether something is a class of layers that have a twin, or a partial of one."""
        import torch

        cls = value.func if isinstance(value, partial) else value
        if not isinstance(cls, type) or not issubclass(cls, torch.nn.Module):
            return False
        return cls in self._layers or not is_own(cls)

    def called(self, value: Any, name: syntax.Expr, made: syntax.Call) -> syntax.Call:
        """A construction by the name that a class is handed on by; what that class's twin is given anyway is left out.

        Args:
            value: the class, or a partial of it.
            name: what the code around calls it.
            made: the construction of the layer's twin.
        """
        constants = self._constants(value)
        made = shortened(made)
        dropped = {each.arg for each in made.keywords if each.arg and constants.get(each.arg) == each.value}
        self._needed.setdefault(_key(value), set()).update(dropped)
        return syntax.Call(name, made.args, tuple(each for each in made.keywords if each.arg not in dropped))

    def expression(self, value: Any) -> syntax.Expr:
        """What is written for a class of layers, or a partial of one.

        Raises:
            CannotKeep: it cannot be said.
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
        """What is written for a layer that is a function, or for the one that is in its place."""
        return function_form(self._replaced.get(type(layer), layer))

    def value(self, thing: Any) -> syntax.Expr:
        """What is written for something that a constructor is given: numbers, classes, and what they are held in.

        Raises:
            CannotKeep: it cannot be said.
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
        given = arguments_of_object(thing)
        if given is not None and not isinstance(thing, torch.nn.Module):
            self._found.classes[type(thing)] = None
            keywords = tuple(syntax.Keyword(name, self.value(each)) for name, each in given.items())
            return syntax.Call(syntax.Name(type(thing).__name__), (), keywords)
        try:
            return literal(thing)
        except NoSource:
            raise CannotKeep(f"source cannot say the {type(thing).__name__} that a constructor is given") from None

    def default(self, thing: Any) -> syntax.Expr:
        """What is written for the default of a parameter: None for a class that is not written, see `is_unwritten`.

        Raises:
            CannotKeep: it cannot be said.
        """
        return syntax.Const(None) if self.is_unwritten(thing) else self.value(thing)

    def is_unwritten(self, thing: Any) -> bool:
        """Whether something is a class of the user's modules of which the model has none, so that it is not written."""
        import torch

        is_module = isinstance(thing, type) and issubclass(thing, torch.nn.Module) and is_own(thing)
        return is_module and thing not in self._names and not self.is_layer(thing)

    def _made(self, made_by: Any, arguments: Mapping[str, Any]) -> syntax.Expr:
        """The call that makes a module, or an object, that a constructor is given."""
        import torch

        parameters = inspect.signature(made_by).parameters
        keywords = [
            syntax.Keyword(name, self.value(each))
            for name, each in arguments.items()
            if name not in parameters or not is_same_object(each, parameters[name].default)
        ]
        if isinstance(made_by, FunctionType) and is_own_function(made_by):
            return syntax.Call(self._found.function(made_by), (), (*keywords, _OPTIONS_GIVEN))
        if made_by in self._names and issubclass(made_by, torch.nn.Module):
            return syntax.Call(syntax.Name(self._names[made_by]), (), (*keywords, _OPTIONS_GIVEN))
        if isinstance(made_by, type) and is_own(made_by) and not issubclass(made_by, torch.nn.Module):
            self._found.classes[made_by] = None
            return syntax.Call(syntax.Name(made_by.__name__), (), tuple(keywords))
        raise CannotKeep(f"source cannot say the {made_by.__name__} that a constructor is given")

    def _constants(self, value: Any) -> dict[str, syntax.Expr]:
        """What the twin of a class is given whatever the class is constructed with, but for what it does by itself."""
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
    """A layer of a class.

    Raises:
        CannotKeep: nobody knows what it is constructed with.
    """
    cls, given = (value.func, value.keywords) if isinstance(value, partial) else (value, {})
    parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
    required = {
        each.name: size
        for each in parameters
        if each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    }
    try:
        return constructed_on_meta(lambda: cls(**{**required, **given}))()
    except Exception as error:
        raise CannotKeep(f"{cls.__name__} cannot be constructed to see what its twin is given") from error


def _key(value: Any) -> Key:
    cls: Any = value.func if isinstance(value, partial) else value
    return cls, repr(value.keywords) if isinstance(value, partial) else ""
