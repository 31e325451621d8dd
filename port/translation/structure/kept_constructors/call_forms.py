"""Source forms of the calls in a constructor that build modules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import FunctionType
from typing import Any

import torch

from port.translation.frontend.construction.construction_calls import (
    INHERITED,
    ConstructionCall,
    ConstructionCalls,
    Place,
    is_own,
)
from port.translation.ir import syntax
from port.translation.ir.module_tree import ModuleTree, paths_above
from port.translation.ir.origin import ConstructorArgument, Origin
from port.translation.ir.origin_expression import expression_of
from port.translation.structure.constructors import has_a_twin, layer_form
from port.translation.structure.kept_constructors.cannot_keep import CannotKeep
from port.translation.structure.kept_constructors.joined_calls import joined_constructions


@dataclass(frozen=True)
class MadeLayer:
    """A layer: its twin's construction, in terms of the names around the call (see `CallForms.said`)."""

    expression: syntax.Call


@dataclass(frozen=True)
class MadeFunction:
    """A layer whose twin is a function; None if one call creates several with different functions."""

    expression: syntax.Expr | None


@dataclass(frozen=True)
class MadeParameter:
    """A parameter in a list or dict."""

    expression: syntax.Expr


@dataclass(frozen=True)
class Own:
    """A module of a class that is written."""

    classes: frozenset[type]


@dataclass(frozen=True)
class Container:
    """A Sequential, list or dict of modules; ``is_named`` if its modules have names."""

    function: str
    is_named: bool = False


CallForm = MadeLayer | MadeFunction | MadeParameter | Own | Container
MadeForm = Callable[[str], syntax.Expr | None]
"""Writes the layer or parameter at a path; its numbers know their origin."""


class CallForms:
    """Finds the source forms of calls.

    Args:
        calls: the calls of a construction.
        tree: the module tree.
        made: writes each layer.
        left_out: paths of modules that the written modules do not hold.
    """

    def __init__(
        self, calls: ConstructionCalls, tree: ModuleTree, made: MadeForm, left_out: frozenset[str] = frozenset()
    ) -> None:
        self._calls, self._tree, self._made, self._left_out = calls, tree, made, left_out
        self._paths: dict[int, str] = {}
        for path, made_there in (*calls.modules.items(), *calls.modules[""].named_parameters()):
            self._paths.setdefault(id(made_there), path)
        values = (value for arguments in calls.layer_arguments.values() for value in arguments.values())
        modules = (value for value in values if isinstance(value, torch.nn.Module))
        # Passed to a layer that is kept whole, which holds them or copies of them.
        self._made_for_others = {id(each) for each in modules if self._is_apart(self._paths.get(id(each)))}
        self._known: dict[Place, CallForm | None] = {}

    def of(self, place: Place) -> CallForm | None:
        """The source form of the calls at a place; None where they created no module.

        Raises:
            CannotKeep: the modules that they created have different source forms.
        """
        if place not in self._known:
            self._known[place] = self._found(place)
        return self._known[place]

    def is_left_out(self, place: Place) -> bool:
        """Whether the calls at a place created modules none of which a written module holds."""
        paths = [self._paths.get(id(call.module)) for call in self._calls.calls.get(place, ())]
        return bool(paths) and all(path in self._left_out for path in paths)

    def said(self, place: Place, tree: syntax.Expr) -> syntax.Expr:
        """Write numbers in terms of the names around a call, as holes named by the original's text."""

        def leaf(origin: Origin) -> syntax.Expr | None:
            match origin:
                case ConstructorArgument(number, text) if self._calls.numbers.get(number) == place:
                    return syntax.Hole(text)
            return None

        def of(node: syntax.Node) -> syntax.Node:
            if isinstance(node, syntax.Const) and node.origin is not None:
                return expression_of(node.origin, leaf) or node
            return node

        return syntax.transformed(tree, of)

    def said_in(self, function: FunctionType, tree: syntax.Expr) -> syntax.Expr:
        """Write numbers in terms of the names around any call in a function."""
        for place in {*self._calls.reached, (function, INHERITED)}:
            if place[0] is function:
                tree = self.said(place, tree)
        return tree

    def of_layer(self, cls: type, place: Place) -> syntax.Call:
        """The base constructor call for a class that derives from a torch layer.

        Args:
            cls: the class.
            place: the place of the ``super().__init__`` call in its constructor.

        Raises:
            CannotKeep: its instances have different source forms, or their twin is a function.
        """
        first, *others = [MadeLayer(self.said(place, each)) for each in self._twins(cls)]  # type: ignore[arg-type]
        form: CallForm = first
        for other in others:
            form = _joined(form, other)
        assert isinstance(form, MadeLayer)
        return form.expression

    def twin(self, cls: type) -> syntax.Expr:
        """The twin of the torch layer that a class derives from.

        Raises:
            CannotKeep: the twin is a function.
        """
        return self._twins(cls)[0].func

    def _twins(self, cls: type) -> list[syntax.Call]:
        """The twin's construction for each instance of a class of layers; shared instances count once."""
        paths = [path for path, module in self._calls.modules.items() if isinstance(module, cls)]
        made = [self._made(path) for path in dict.fromkeys(map(self._tree.first_path, paths))]
        twins = [each for each in made if isinstance(each, syntax.Call) and _is_construction(each)]
        if not twins or len(twins) < len(made):
            raise CannotKeep(f"{cls.__name__} has no layer in JAX to derive from")
        return twins

    def _found(self, place: Place) -> CallForm | None:
        calls = self._calls.calls.get(place, ())
        forms = [form for call in calls if (form := self._of_call(place, call)) is not None]
        if not forms:
            return None
        first, *others = forms
        for other in others:
            first = _joined(first, other)
        return first

    def _of_call(self, place: Place, call: ConstructionCall) -> CallForm | None:
        path = self._paths.get(id(call.module))
        if path is None or id(call.module) in self._made_for_others:
            return self._of_apart(place, call.module)
        inside = call.called.func if isinstance(call.called, partial) else call.called
        if not isinstance(inside, type):
            return None  # a function that returns a module: an inner call created it
        if isinstance(call.module, torch.nn.Parameter):
            return self._of_parameter(place, path)
        path = self._tree.first_path(path)
        match self._tree.kind(path):
            case "layer" if type(call.module) in self._calls.written:
                return Own(frozenset({type(call.module)}))
            case "layer":
                made = self._made(path)
                if made is None:
                    raise CannotKeep(f"nothing is written for {path}")
                said = self.said(place, made)
                return (
                    MadeLayer(said) if isinstance(said, syntax.Call) and _is_construction(said) else MadeFunction(said)
                )
            case "sequential" if type(call.module).__module__.startswith("torch."):
                names = list(call.module._modules)
                return Container("flax.nnx.Sequential", names != [str(number) for number in range(len(names))])
            case "list":
                return Container("flax.nnx.List")
            case "dict":
                return Container("flax.nnx.Dict")
            case "class" if not is_own(type(call.module)):
                made = self._made(path)  # a layer without a counterpart in Flax
                if made is None:
                    raise CannotKeep(f"nothing is written for {path}")
                return MadeLayer(self.said(place, made))  # type: ignore[arg-type]
        return Own(frozenset({type(call.module)}))

    def _is_apart(self, path: str | None) -> bool:
        """Whether a module is outside the tree: it has no path, or is inside a layer that is kept whole."""
        return path is None or any(above in self._tree.layers for above in paths_above(path))

    def is_made_for_others(self, place: Place) -> bool:
        """Whether the calls at a place created layers for others to hold or copy: ``nn.TransformerEncoderLayer``."""
        calls = self._calls.calls.get(place, ())
        return bool(calls) and all(id(call.module) in self._made_for_others for call in calls)

    def _of_apart(self, place: Place, module: Any) -> CallForm | None:
        """A module outside the model: a layer that another one copies, or a Sequential of which only items are held."""
        if id(module) in self._made_for_others and not is_own(type(module)) and has_a_twin(module):
            made = layer_form(module, known=(module, {}))
            return MadeLayer(self.said(place, made))  # type: ignore[arg-type]
        if type(module) is not torch.nn.Sequential or all(id(child) not in self._paths for child in module):
            return None
        names = list(module._modules)
        return Container("flax.nnx.Sequential", names != [str(number) for number in range(len(names))])

    def _of_parameter(self, place: Place, path: str) -> MadeParameter | None:
        """A parameter in a list or dict; one in an attribute is written there."""
        owner = path.rpartition(".")[0]
        if not owner or self._tree.kind(self._tree.first_path(owner)) not in ("list", "dict"):
            return None
        made = self._made(path)
        return None if made is None else MadeParameter(self.said_in(place[0], made))


def _joined(one: CallForm, other: CallForm) -> CallForm:
    """The common source form of two calls.

    Raises:
        CannotKeep: they have none.
    """
    match one, other:
        case Own(some), Own(others):
            return Own(some | others)
        case MadeLayer(made), MadeLayer(also) if made != also:
            return MadeLayer(joined_constructions(made, also))
        case MadeFunction(made), MadeFunction(also) if made != also:
            return MadeFunction(None)
        case Container(name), Container(same) if name == same:
            return Container(name, one.is_named or other.is_named)
    if one != other:
        raise CannotKeep(f"one call makes {_text(one)} and {_text(other)}")
    return one


def _is_construction(made: syntax.Call) -> bool:
    return any(each.arg is None or each.arg == "rngs" for each in made.keywords)


def _text(form: CallForm) -> str:
    match form:
        case MadeLayer(made) | MadeParameter(made) | MadeFunction(syntax.Expr() as made):
            return syntax.source(made)
        case MadeFunction():
            return "several functions"
        case Own(classes):
            return " or ".join(sorted(each.__name__ for each in classes))
    return form.function
