"""Fold the instances of one original class into one class; what differs becomes constructor arguments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from port.translation.ir import syntax
from port.translation.ir.expr import code, dotted, filled, literal, names_in
from port.translation.structure.anti_unify import Differ, Holes, PartialHoles, numbered, unified, without_numbers
from port.translation.structure.argument import Argument
from port.translation.structure.ctor_args import OPTIONS, by_name_alone, default_of, name_holes, parameters
from port.translation.structure.kept_constructor import KeptConstructor
from port.translation.structure.layer_stack import LayerStack
from port.translation.structure.methods import is_conditional
from port.translation.structure.sequential import IDENTITY
from port.translation.structure.statement_merge import Conditions, merged_statements
from port.translation.structure.written_body import Body


@dataclass(frozen=True)
class ClassForm:
    """One instance of a class.

    Attributes:
        path: the module's path.
        module: the torch module.
        attributes: attribute names → constructions, in terms of the constructor's arguments.
        body: the body of its call; None if it is never called.
        is_sequential: whether it is a Sequential of its attributes.
        arguments: the original's argument names → the values passed to its constructor.
        made: the same constructions in terms of the enclosing constructor.
        idle: names of modules that return their input, and are called like others of their name.
    """

    path: str
    module: Any
    attributes: Mapping[str, syntax.Expr]
    body: Body | None
    is_sequential: bool = False
    arguments: Mapping[str, syntax.Expr] = field(default_factory=dict)
    made: Mapping[str, syntax.Expr] = field(default_factory=dict)
    idle: frozenset[str] = frozenset()


@dataclass(frozen=True)
class FoldedClass:
    """A class to write.

    Attributes:
        name: the original's name, numbered where one original class became several.
        members: the paths of its instances.
        original: the torch class.
        arguments: the constructor's arguments.
        attributes: what the constructor builds; for an attribute that is passed in, the argument's name.
        body: the body of its call; None for a class that only holds other modules.
        is_sequential: whether it is a Sequential of its attributes.
        is_frozen: whether no parameter is trained, which the constructor then states.
        kept: the constructor, where it is translated from the original's source.
        stacked: the lists that its call scans as a stack.
        is_scanned: whether all its instances are in stacks.
    """

    name: str
    members: tuple[str, ...]
    original: type
    arguments: tuple[Argument, ...]
    attributes: Mapping[str, syntax.Expr]
    body: Body | None
    is_sequential: bool = False
    is_frozen: bool = False
    kept: KeptConstructor | None = None
    stacked: tuple[LayerStack, ...] = ()
    is_scanned: bool = False

    def construction(self, path: str) -> syntax.Expr:
        """The call that builds an instance, every argument by name."""
        keywords = [syntax.Keyword(argument.name, argument.values[path]) for argument in self.arguments]
        options = syntax.Keyword(None, syntax.Name("options"))
        return syntax.Call(syntax.Name(self.name), (), (*keywords, options))


_MOST_MODULES = 2


def fold(forms: list[ClassForm], taken: set[str]) -> list[FoldedClass]:
    """Fold instances into as few classes as possible."""
    groups: dict[Any, list[ClassForm]] = defaultdict(list)
    for form in forms:
        groups[_shape(form)].append(form)
    classes: list[FoldedClass] = []
    waiting = sorted(groups.values(), key=lambda group: -_size(group[0]))
    merged: list[list[list[ClassForm]]] = []
    for group in waiting:
        for together in merged:
            if _folded([*together, group], "probe") is not None:
                together.append(group)
                break
        else:
            merged.append([group])
    merged.sort(key=lambda together: min(forms.index(form) for group in together for form in group))
    for together in merged:
        name = _free_name(type(forms[0].module).__name__, taken)
        taken.add(name)
        made = _folded(together, name)
        assert made is not None
        classes.append(made)
    return classes


def _free_name(wanted: str, taken: set[str]) -> str:
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}{number}", number + 1
    return name


def _size(form: ClassForm) -> int:
    return len(form.attributes) + (len(form.body.statements) if form.body else 0)


def _shape(form: ClassForm) -> Any:
    """A form with its numbers erased."""
    attributes = tuple((name, without_numbers(made, none_too=False)) for name, made in form.attributes.items())
    body = form.body
    if body is None:
        return attributes
    returns = None if body.returns is None else without_numbers(body.returns, none_too=False)
    statements = tuple(without_numbers(statement, none_too=False) for statement in body.statements)
    return attributes, statements, body.parameters, returns


def _folded(groups: list[list[ClassForm]], name: str) -> FoldedClass | None:
    """Fold groups of instances, each uniform up to its numbers, into one class; None where that is impossible."""
    forms = [form for group in groups for form in group]
    holes = Holes()
    names = list(dict.fromkeys(attribute for form in forms for attribute in form.attributes))
    # A module that is idle in all of them is still called: another class of the original has a module there.
    idle = frozenset[str]().union(*(form.idle for form in forms)) - {*names}
    attributes: dict[str, syntax.Expr] = {name: code(IDENTITY) for name in sorted(idle)}
    modules: list[Argument] = []
    for attribute in names:
        constructions = [form.attributes.get(attribute) for form in forms]
        if all(made is None or isinstance(made, syntax.Name) for made in constructions):
            # Random streams: the instances without them may hold them, too.
            constructions = [made for made in constructions if made is not None]
        try:
            attributes[attribute] = unified(_all_there(constructions), holes, (attribute,))
        except Differ:
            if len(groups) == 1 or len(modules) == _MOST_MODULES:
                return None
            argument = (_function if forms[0].is_sequential else _module)(attribute, forms)
            if argument is None or any(argument.name == other.name for other in modules):
                return None
            modules.append(argument)
            attributes[attribute] = syntax.Name(argument.name)
    flags: list[Argument] = []
    body = _body(groups, modules, holes, flags)
    if isinstance(body, str):
        return None
    read = _read_in(body)
    kept_ones = {number for number in range(len(holes.found)) if numbered(number) in read}
    said = _said(forms, attributes)
    if {argument.name for argument in said} & {argument.name for argument in (*modules, *flags)}:
        return None  # one name cannot mean both an argument and what is built from it
    taken = {argument.name for argument in (*modules, *flags, *said)}
    called = name_holes(holes, forms, taken, kept_ones, set(names), {flag.name: flag.values for flag in flags})
    arguments = list(said)
    for number, hole in enumerate(holes.found):
        if called[number].formula is None:
            values = {form.path: literal(value) for form, value in zip(forms, hole.numbers, strict=True)}
            arguments.append(Argument(called[number].name, values, False, number in kept_ones, called[number].default))
    filling = {numbered(number).name: one.written("") for number, one in enumerate(called)}
    kept = {numbered(number).name: one.written("self.") for number, one in enumerate(called)}
    attributes = {attribute: filled(made, filling) for attribute, made in attributes.items()}
    if body is not None:
        statements = tuple(filled(statement, kept) for statement in body.statements)
        body = Body(body.parameters, statements, body.returns and filled(body.returns, kept), body.modes)
    order = {one.name: one.order for one in called if one.formula is None}
    order |= {name: place for place, name in enumerate(parameters(_class(forms)))}
    arguments.sort(key=lambda argument: order[argument.name])
    every: list[Argument] = [*arguments, *flags, *modules]
    every = sorted(every, key=lambda argument: (argument.by_name, argument.default is not None))
    return FoldedClass(
        name,
        tuple(form.path for form in forms),
        type(forms[0].module),
        tuple(every),
        attributes,
        body,
        forms[0].is_sequential,
    )


def _said(forms: list[ClassForm], attributes: Mapping[str, syntax.Expr]) -> list[Argument]:
    """The original's arguments in terms of which the attributes are expressed."""
    known, by_name = parameters(_class(forms)), by_name_alone(_class(forms))
    read = names_in(*attributes.values())
    arguments = []
    for name, default in known.items():
        if name in read and all(name in form.arguments for form in forms):
            values = {form.path: form.arguments[name] for form in forms}
            by_itself = name in by_name
            arguments.append(Argument(name, values, False, False, default_of(default), by_itself, is_said=True))
    return arguments


def _module(attribute: str, forms: list[ClassForm]) -> Argument | None:
    """Pass a module that some instances lack as an argument; None if none lacks it: then they are different classes."""
    constructions = {form.path: form.attributes.get(attribute) for form in forms}
    if None not in constructions.values() or attribute in OPTIONS:
        return None
    default = code(IDENTITY) if any(attribute in form.idle for form in forms) else syntax.Const(None)
    values = {form.path: form.made.get(attribute) or constructions[form.path] or default for form in forms}
    return Argument(attribute, values, True, default=default)


def _class(forms: list[ClassForm]) -> Any:
    return type(forms[0].module)


def _function(place: str, forms: list[ClassForm]) -> Argument | None:
    """Pass a Sequential's element, such as an activation, as an argument; None where the element is a layer."""
    none = code(IDENTITY)
    values = {form.path: form.attributes.get(place, none) for form in forms}
    if any(isinstance(made, syntax.Call) and dotted(made.func) != "partial" for made in values.values()):
        return None
    original = (name for name in parameters(_class(forms)) if "activation" in name)
    default = none if none in values.values() else None
    return Argument(next(original, f"layer_{place}"), values, True, default=default)


def _all_there(constructions: list[syntax.Expr | None]) -> list[syntax.Expr]:
    """The same list, checked to be without gaps.

    Raises:
        Differ: some instances lack it.
    """
    there = [made for made in constructions if made is not None]
    if len(there) < len(constructions):
        raise Differ
    return there


def _read_in(body: Body | None) -> set[syntax.Node]:
    """The holes that a call reads."""
    nodes = () if body is None else syntax.walk(*body.statements, body.returns)
    return {node for node in nodes if isinstance(node, syntax.Hole)}


def _body(
    groups: list[list[ClassForm]], modules: list[Argument], holes: Holes, flags: list[Argument]
) -> Body | str | None:
    """Merge the bodies, with what only some do under a condition; the reason as a string where that is impossible."""
    bodies = [group[0].body for group in groups]
    if any(body is None for body in bodies):
        return None if all(body is None for body in bodies) else "only some are called"
    first = bodies[0]
    assert first is not None
    if any(body.parameters != first.parameters for body in bodies if body is not None):
        return "they take different arguments"
    try:
        conditions = Conditions(groups, modules, flags, holes)
        statements = merged_statements(groups, conditions, holes)
        returns = _returns(groups, conditions, statements, holes)
    except Differ:
        return "they do different things"
    if any(map(is_conditional, statements)):
        return "their methods do different things"
    return Body(first.parameters, tuple(statements), returns, any(body.modes for body in bodies if body is not None))


def _returns(
    groups: list[list[ClassForm]], conditions: Conditions, statements: list[syntax.Stmt], holes: Holes
) -> syntax.Expr | None:
    """Merge the return values; where one of two groups differs, it returns first, under its condition."""
    try:
        return _unified_returns(groups, holes)
    except Differ:
        if len(groups) != 2:
            raise
    places = range(sum(map(len, groups)))
    parts = list(places[: len(groups[0])]), list(places[len(groups[0]) :])
    one, other = (
        _unified_returns([group], PartialHoles(holes, part, len(places)))
        for group, part in zip(groups, parts, strict=True)
    )
    if one is None or other is None:
        raise Differ
    statements.append(syntax.If(conditions.test({0}), (syntax.Return(one),)))
    return other


def _unified_returns(groups: list[list[ClassForm]], holes: Holes) -> syntax.Expr | None:
    returns = [form.body.returns for group in groups for form in group if form.body is not None]
    if all(made is None for made in returns):
        return None
    return unified(_all_there(returns), holes, ("",))
