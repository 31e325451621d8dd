"""Translate constructors from the original's source."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any

import torch

from port.translation.frontend.construction.construction_calls import (
    ConstructionCalls,
    inherits_a_layers_constructor,
    is_own,
)
from port.translation.frontend.construction.function_trees import definition_of
from port.translation.ir import syntax
from port.translation.ir.expr import code, names_in, worth
from port.translation.ir.number import is_same
from port.translation.ir.origin_numbers import plain
from port.translation.structure.argument import Argument
from port.translation.structure.class_merge import FoldedClass
from port.translation.structure.constructors import OPTIONS, common_parameters, options_gathered, own_attribute
from port.translation.structure.kept_constructor import KeptConstructor, KeptDefinition
from port.translation.structure.kept_constructors.also_written import AlsoWritten, is_own_function
from port.translation.structure.kept_constructors.bases_first import bases_first
from port.translation.structure.kept_constructors.call_forms import CallForms
from port.translation.structure.kept_constructors.cannot_keep import CannotKeep
from port.translation.structure.kept_constructors.class_values import ClassValues
from port.translation.structure.kept_constructors.function_writer import body_of
from port.translation.structure.kept_constructors.held_names import HeldNames
from port.translation.structure.kept_constructors.inherited import inherited_constructor
from port.translation.structure.kept_constructors.known import Known, Owner
from port.translation.structure.kept_constructors.names import Names
from port.translation.structure.kept_constructors.original_classes import class_definition
from port.translation.structure.kept_constructors.reads import (
    attributes_in,
    attributes_of_all,
    attributes_of_any,
    attributes_read,
    texts_in,
)
from port.translation.structure.kept_constructors.signatures import (
    default_refused,
    own_parameters,
    parameters_of,
    parameters_taken,
    refusal,
)
from port.translation.structure.kept_constructors.statement_writer import NO_MODULE, base_of


@dataclass(frozen=True)
class Kept:
    """The translated classes, with all that their constructors need.

    Attributes:
        classes: the classes, in the order in which they are written.
        definitions: functions and plain classes that they use; written first.
        imports: import lines.
    """

    classes: tuple[FoldedClass, ...]
    definitions: tuple[KeptDefinition, ...]
    imports: frozenset[str]


def has_own_constructor(cls: type) -> bool:
    """Whether a class's constructor is the user's or a library's, and its source is available."""
    construct = cls.__init__  # type: ignore[misc]
    if construct is torch.nn.Module.__init__:
        return True
    return isinstance(construct, FunctionType) and is_own_function(construct) and definition_of(construct) is not None


class Keeping:
    """Translates the constructors of folded classes.

    Args:
        calls: the calls of the construction.
        forms: their source forms.
        layers: layer classes with a twin.
        classes: the folded classes.
        held: original class → names of what its modules hold.
    """

    def __init__(
        self,
        calls: ConstructionCalls,
        forms: CallForms,
        layers: frozenset[type],
        classes: Sequence[FoldedClass],
        held: Mapping[type, HeldNames],
    ) -> None:
        self._calls, self._folded, self._held = calls, list(classes), held
        self._names = {made.original: made.name for made in classes}
        if len(self._names) < len(classes):
            raise CannotKeep("a class of the original becomes several")
        self._found = AlsoWritten()
        self._values = ClassValues(layers, self._names, self._found, calls.replaced)
        names = Names(self._values, self._names, self._found)
        self._lookup = names
        self._known = Known(calls, forms, self._values, names)
        self._read: set[str] = set()
        self._called: dict[type, set[str]] = {}

    def kept(self, fixed: Mapping[str, syntax.Expr]) -> Kept:
        """Translate all constructors.

        Args:
            fixed: arguments of the root's constructor that accept one value only.

        Raises:
            CannotKeep: one of them cannot be translated.
        """
        while True:
            before = self._extent()
            done = self._all(fixed)
            # What one constructor reads of another's module has to be created: repeat with everything that is read.
            if before == self._extent():
                self._check_names(done)
                return done

    def _extent(self) -> tuple[int, ...]:
        """A measure of what is to be written and read, to detect the fixed point."""
        called, passing = sum(map(len, self._called.values())), len(self._known.with_options)
        return len(self._names), len(self._found.functions), len(self._found.classes), len(self._read), called, passing

    def _all(self, fixed: Mapping[str, syntax.Expr]) -> Kept:
        classes = [self._class(made, fixed) for made in list(self._folded)]
        functions = [KeptDefinition(each, self._function(each)) for each in list(self._found.functions)]
        by_depth = sorted(self._found.classes, key=lambda cls: len(cls.__mro__))
        others = [KeptDefinition(each, class_definition(each, self._lookup, self._read)) for each in by_depth]
        constructors = [each for made in classes if made.kept is not None for each in made.kept.functions]
        self._read |= attributes_of_any([*constructors, *(made.statement for made in (*functions, *others))])
        return Kept(tuple(bases_first(classes)), (*others, *functions), frozenset(self._found.imports))

    def _fixed_in(self, made: FoldedClass, fixed: Mapping[str, syntax.Expr]) -> Mapping[str, syntax.Expr]:
        """The root's fixed arguments that a class's constructor checks; its base checks those passed on."""
        root = next(each for each in self._folded if "" in each.members)
        if not issubclass(root.original, made.original) or (made.members and made is not root):
            return {}
        own = own_parameters(made.original)
        checked = own.keys() - own_parameters(root.original).keys() if made is not root else own.keys()
        return {name: value for name, value in fixed.items() if name in checked}

    def _check_names(self, kept: Kept) -> None:
        """Check that no two things share a name.

        Raises:
            CannotKeep: two of them do.
        """
        names = [made.name for made in kept.classes] + [made.name for made in kept.definitions]
        if len(set(names)) < len(names):
            raise CannotKeep(f"several things have one name: {max(names, key=names.count)}")

    def _class(self, made: FoldedClass, fixed: Mapping[str, syntax.Expr]) -> FoldedClass:
        if not is_own(made.original):
            return made  # a layer without a counterpart in Flax
        held = self._held[made.original]
        self._read |= attributes_of_all(made) | attributes_in(held.added.values())
        # What other constructors read of its modules has to be created, except modules that are not written.
        needed = {*held.written, *(self._read - held.modules)}
        owner = Owner(made.original, needed, held.modules, held.written, held.tensors, made.is_sequential, held.is_list)
        owner.tables = held.tables
        owner.instances = tuple(self._calls.modules[path] for path in made.members)
        self._check_creates_what_is_read(made)
        construct: Any = made.original.__init__  # type: ignore[misc]
        functions = self._functions(construct, owner, made, held, self._fixed_in(made, fixed))
        base = base_of(made.original, construct) if construct is not torch.nn.Module.__init__ else torch.nn.Module
        own_base = is_own(base) and "super().__init__" in "\n".join(texts_in(functions))
        if own_base:
            if base not in self._names:
                self._add_base(base, made)
            shown: syntax.Expr = syntax.Name(self._names[base])
        elif made.original in self._calls.written:
            shown = self._known.forms.twin(made.original)
        else:
            shown = code("nnx.Sequential" if made.is_sequential else "nnx.Module")
        kept = KeptConstructor(shown, self._class_attributes(made.original, own_base), functions)
        return replace(made, kept=kept, arguments=self._arguments(made, fixed), attributes={})

    def _add_base(self, base: type, made: FoldedClass) -> None:
        """Add a base class to those that are written."""
        self._names[base] = base.__name__
        held = self._held[made.original]
        self._held = {**self._held, base: held}
        place = min(place for place, each in enumerate(self._folded) if issubclass(each.original, base))
        self._folded.insert(place, FoldedClass(base.__name__, (), base, (), {}, None, is_sequential=made.is_sequential))

    def _check_creates_what_is_read(self, made: FoldedClass) -> None:
        """Check that the original's constructor creates what the call reads and what distinguishes the instances.

        Raises:
            CannotKeep: it does not.
        """
        modules = [self._calls.modules[path] for path in made.members]
        held = self._held[made.original]
        for name in (attributes_read(made) | attributes_in(held.added.values())) - held.written - {"deterministic"}:
            if name in held.modules or not all(hasattr(module, name) for module in modules):
                raise CannotKeep(f"{made.name} reads {name}, which its constructor does not set")
        for argument in made.arguments:
            if argument.is_module:
                continue
            for path, module in zip(made.members, modules, strict=True):
                if not is_same(plain(getattr(module, argument.name, None)), worth(argument.values[path])):
                    raise CannotKeep(f"the instances of {made.name} differ in {argument.name}")

    def _functions(
        self,
        construct: FunctionType,
        owner: Owner,
        made: FoldedClass,
        held: HeldNames,
        fixed: Mapping[str, syntax.Expr],
    ) -> tuple[syntax.FunctionDef, ...]:
        if inherits_a_layers_constructor(made.original):
            modules = [self._calls.modules[path] for path in made.members]
            return (inherited_constructor(construct, self._known, owner, made, modules),)
        owner.take_static_methods(self._read)
        owner.take_overriding_methods(self._called)
        known = -1
        while known != len(owner.attributes):  # methods read what the constructor creates, and vice versa
            known = len(owner.attributes)
            lines = None if construct is torch.nn.Module.__init__ else body_of(construct, self._known, owner)
            methods = [
                (each, name in owner.static, body_of(each, self._known, None if name in owner.static else owner))
                for name, each in list(owner.methods.items())
            ]
        self._called.setdefault(made.original, set()).update(owner.methods)
        head: list[syntax.Stmt] = []
        if made.body is not None and made.body.modes:
            head.append(own_attribute("deterministic", syntax.Const(False)))
        if lines is not None and _mentions_options(lines):
            head.append(options_gathered())
        head += [refusal(made.name, name, value) for name, value in fixed.items()]
        head += [
            default_refused(made.name, name, parameter.default)
            for name, parameter in inspect.signature(construct).parameters.items()
            if self._values.is_unwritten(parameter.default)
        ]
        head += [own_attribute(name, NO_MODULE) for name in sorted(held.lacking & held.written)]
        tail = [own_attribute(name, added) for name, added in held.added.items()] if made.members else []
        body = (*head, *([] if lines is None else [lines]), *tail) or (syntax.Pass(),)
        is_own_constructor = construct is not torch.nn.Module.__init__
        # It may take parameters that are no longer used.
        own = parameters_of(construct, self._values) if is_own_constructor else (syntax.Parameter("self"),)
        # ``**kwargs`` comes last.
        accepted = sorted((*own, *common_parameters()), key=lambda each: each.kind == "**")
        constructor = syntax.FunctionDef("__init__", tuple(accepted), body, returns=syntax.Const(None))
        made_so = (
            (self._definition(function, written), (syntax.Name("staticmethod"),) if is_static else ())
            for function, is_static, written in methods
        )
        return (constructor, *(replace(definition, decorators=decorators) for definition, decorators in made_so))

    def _function(self, function: FunctionType) -> syntax.FunctionDef:
        return self._definition(function, body_of(function, self._known))

    def _definition(self, function: FunctionType, lines: syntax.Lines | None) -> syntax.FunctionDef:
        parameters = parameters_of(function, self._values)
        if self._known.takes_options(function):
            if any(each.kind == "**" for each in parameters):
                raise CannotKeep(f"{function.__qualname__} creates modules and takes **kwargs")
            parameters = (*parameters, syntax.Parameter(OPTIONS, syntax.Name("Any"), kind="**"))
        return syntax.FunctionDef(function.__name__, parameters, (lines or syntax.Pass(),), returns=syntax.Name("Any"))

    def _arguments(self, made: FoldedClass, fixed: Mapping[str, syntax.Expr]) -> tuple[Argument, ...]:
        """The arguments of the root's constructor; those with a single value are not used by the code."""
        if "" not in made.members:
            return ()
        found = []
        taken = parameters_taken(made.original)
        for name, value in self._calls.root.items():
            parameter = taken[name]
            default = None if parameter.default is parameter.empty else self._values.default(parameter.default)
            by_name = parameter.kind is parameter.KEYWORD_ONLY
            values = {"": self._values.value(value)}
            found.append(Argument(name, values, False, False, default, by_name, is_said=name not in fixed))
        return tuple(found)

    def _class_attributes(self, cls: type, has_own_base: bool) -> tuple[syntax.Assign, ...]:
        """The class attributes that are read."""
        found = {}
        for base in reversed(cls.__mro__):
            if not is_own(base) or not issubclass(base, torch.nn.Module) or (has_own_base and base is not cls):
                continue
            for name, value in vars(base).items():
                if name in self._read and isinstance(value, bool | int | float | str | tuple):
                    found[name] = syntax.Assign(syntax.Name(name), self._values.value(value))
        return tuple(found.values())


def _mentions_options(lines: syntax.Lines) -> bool:
    names = {node.id for node in ast.walk(ast.parse(lines.text)) if isinstance(node, ast.Name)}
    return OPTIONS in names | names_in(*lines.parts)
