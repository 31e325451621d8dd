"""Constructors that are written as the original's source has them."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any

import torch

from port.translation.frontend.construction.construction_calls import ConstructionCalls, is_own
from port.translation.frontend.construction.function_trees import definition_of
from port.translation.ir import syntax
from port.translation.ir.expr import code, names_in
from port.translation.structure.argument import Argument
from port.translation.structure.class_merge import FoldedClass, KeptConstructor
from port.translation.structure.constructors import OPTIONS
from port.translation.structure.kept_constructors.also_written import AlsoWritten, is_own_function
from port.translation.structure.kept_constructors.call_forms import CallForms
from port.translation.structure.kept_constructors.cannot_keep import CannotKeep
from port.translation.structure.kept_constructors.class_values import ClassValues
from port.translation.structure.kept_constructors.function_writer import FunctionWriter, Owner, base_of
from port.translation.structure.kept_constructors.names import Names
from port.translation.structure.kept_constructors.original_classes import class_definition

_COMMON = ("dtype", "param_dtype", "rngs")


@dataclass(frozen=True)
class HeldNames:
    """What the modules of a class hold.

    Attributes:
        modules: names of the modules and the tensors that the original's hold.
        written: those of them that the written ones hold.
        lacking: those that some do not have.
        tensors: names → what they start as.
    """

    modules: frozenset[str]
    written: frozenset[str]
    lacking: frozenset[str]
    tensors: Mapping[str, syntax.Expr]


@dataclass(frozen=True)
class Kept:
    """The classes with their constructors.

    Attributes:
        classes: in the order in which they are written.
        definitions: the functions and the classes of other kinds that they read, which come first.
        imports: lines.
    """

    classes: tuple[FoldedClass, ...]
    definitions: tuple[syntax.Stmt, ...]
    imports: frozenset[str]


def has_own_constructor(cls: type) -> bool:
    """Whether the constructor of a class is of the user's, or of a library's."""
    construct = cls.__init__  # type: ignore[misc]
    if construct is torch.nn.Module.__init__:
        return True
    return isinstance(construct, FunctionType) and is_own_function(construct) and definition_of(construct) is not None


class Keeping:
    """Writes the constructors of folded classes.

    Args:
        calls: of the construction.
        forms: what is written for them.
        layers: classes of layers that have a twin.
        classes: folded ones.
        held: original class → what its modules hold.
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
        self._values = ClassValues(layers, self._names, calls.made_by, self._found)
        names = Names(self._values, self._names, self._found)
        self._lookup = names
        self._writer = FunctionWriter(calls, forms, self._values, names)
        self._read: set[str] = set()

    def kept(self, fixed: Mapping[str, Any]) -> Kept:
        """All of them.

        Args:
            fixed: arguments of the root's constructor that take no other values.

        Raises:
            CannotKeep: one of them cannot be written.
        """
        done = self._all({})
        while True:
            before = len(self._names), len(self._found.functions), len(self._found.classes), len(self._read)
            # What one of them reads of another has to be there: once more, with all that is read.
            done = self._all(fixed)
            if before == (len(self._names), len(self._found.functions), len(self._found.classes), len(self._read)):
                return done

    def _all(self, fixed: Mapping[str, Any]) -> Kept:
        classes = [self._class(made, fixed if made is self._folded[-1] else {}) for made in self._folded]
        functions = [self._function(function) for function in self._found.functions]
        bases_first = sorted(self._found.classes, key=lambda cls: len(cls.__mro__))
        others = [class_definition(cls, self._lookup, self._read) for cls in bases_first]
        trees = [*(each for made in classes if made.kept for each in made.kept.functions), *functions, *others]
        for lines in _lines(trees):
            self._read |= _attributes_of_any(ast.parse(lines))
        return Kept(tuple(classes), (*others, *functions), frozenset(self._found.imports))

    def _class(self, made: FoldedClass, fixed: Mapping[str, Any]) -> FoldedClass:
        held = self._held[made.original]
        read = _attributes_read(made)
        owner = Owner(
            made.original,
            {*held.written, *read, *self._read_elsewhere(made.original)},
            held.modules,
            held.tensors,
            made.is_sequential,
        )
        construct: Any = made.original.__init__  # type: ignore[misc]
        functions = self._functions(construct, owner, made, held, fixed)
        base = base_of(made.original, construct) if construct is not torch.nn.Module.__init__ else torch.nn.Module
        own_base = is_own(base) and "super().__init__" in "\n".join(_lines(functions))
        if own_base:
            if base not in self._names:
                self._add_base(base, made)
            shown: syntax.Expr = syntax.Name(self._names[base])
        else:
            shown = code("nnx.Sequential" if made.is_sequential else "nnx.Module")
        kept = KeptConstructor(shown, self._class_attributes(made.original, own_base), functions)
        return replace(made, kept=kept, arguments=self._arguments(made), attributes={})

    def _add_base(self, base: type, made: FoldedClass) -> None:
        """Take in a class that one derives from, to be written too."""
        self._names[base] = base.__name__
        held = self._held[made.original]
        self._held = {**self._held, base: held}
        place = min(place for place, each in enumerate(self._folded) if issubclass(each.original, base))
        self._folded.insert(place, FoldedClass(base.__name__, (), base, (), {}, None, is_sequential=made.is_sequential))

    def _read_elsewhere(self, cls: type) -> set[str]:
        """Attributes of a class's modules that other constructors read."""
        return {name for name in self._read if name not in vars(torch.nn.Module)}

    def _functions(
        self, construct: FunctionType, owner: Owner, made: FoldedClass, held: HeldNames, fixed: Mapping[str, Any]
    ) -> tuple[syntax.FunctionDef, ...]:
        known = -1
        while known != len(owner.attributes):  # methods read what the constructor makes, and the other way round
            known = len(owner.attributes)
            lines = None if construct is torch.nn.Module.__init__ else self._writer.body(construct, owner)
            methods = {name: self._writer.body(function, owner) for name, function in list(owner.methods.items())}
        head: list[syntax.Stmt] = []
        if made.body is not None and made.body.modes:
            head.append(code_statement("self.deterministic = False"))
        if lines is not None and _mentions_options(lines):
            options = code("{" + ", ".join(f'"{name}": {name}' for name in _COMMON) + "}")
            head.append(syntax.AnnAssign(syntax.Name(OPTIONS), code("dict[str, Any]"), options))
        for name, value in fixed.items():
            head.append(_only_so(made.name, name, value))
        head += [code_statement(f"self.{name} = None") for name in sorted(held.lacking & held.written)]
        body = (*head, *([] if lines is None else [lines])) or (syntax.Pass(),)
        known_ones = [syntax.Parameter("self")] if lines is None else self._parameters(construct)
        parameters = (*known_ones, *_options_by_name())
        found = [syntax.FunctionDef("__init__", _ordered(parameters), body, returns=syntax.Const(None))]
        for name, written in methods.items():
            function = owner.methods[name]
            found.append(self._definition(function, written, keeps_self=True))
        return tuple(found)

    def _function(self, function: FunctionType) -> syntax.FunctionDef:
        return self._definition(function, self._writer.body(function), keeps_self=False)

    def _definition(self, function: FunctionType, lines: syntax.Lines | None, *, keeps_self: bool) -> Any:
        parameters = self._parameters(function)
        if keeps_self:
            parameters = (syntax.Parameter("self"), *parameters[0:]) if not _is_self(parameters) else parameters
        if self._writer.takes_options(function):
            parameters = (*parameters, syntax.Parameter(OPTIONS, syntax.Name("Any"), kind="**"))
        return syntax.FunctionDef(function.__name__, parameters, (lines or syntax.Pass(),), returns=syntax.Name("Any"))

    def _parameters(self, function: FunctionType) -> tuple[syntax.Parameter, ...]:
        found = []
        for name, parameter in inspect.signature(function).parameters.items():
            if name == "self":
                found.append(syntax.Parameter("self"))
                continue
            default = None if parameter.default is parameter.empty else self._values.value(parameter.default)
            found.append(
                syntax.Parameter(name, _annotation(parameter.annotation), default, _KINDS.get(parameter.kind, ""))
            )
        return tuple(found)

    def _arguments(self, made: FoldedClass) -> tuple[Argument, ...]:
        """What the root's constructor is given."""
        if "" not in made.members:
            return ()
        found = []
        signature = inspect.signature(made.original.__init__)  # type: ignore[misc]
        for name, value in self._calls.root.items():
            parameter = signature.parameters[name]
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                if value:
                    raise CannotKeep(f"its constructor is given *{name}")
                continue
            default = None if parameter.default is parameter.empty else self._values.value(parameter.default)
            by_name = parameter.kind is parameter.KEYWORD_ONLY
            given = {"": self._values.value(value)}
            found.append(Argument(name, given, False, False, default, by_name, is_said=True))
        return tuple(found)

    def _class_attributes(self, cls: type, has_own_base: bool) -> tuple[syntax.Assign, ...]:
        """Those of the class itself that are read."""
        found = {}
        for base in reversed(cls.__mro__):
            if not is_own(base) or not issubclass(base, torch.nn.Module) or (has_own_base and base is not cls):
                continue
            for name, value in vars(base).items():
                if name in self._read and isinstance(value, bool | int | float | str | tuple):
                    found[name] = syntax.Assign(syntax.Name(name), self._values.value(value))
        return tuple(found.values())


_KINDS: Mapping[Any, str] = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
    inspect.Parameter.KEYWORD_ONLY: "name",
}


def _is_self(parameters: Sequence[syntax.Parameter]) -> bool:
    return bool(parameters) and parameters[0].name == "self"


def _attributes_of_any(tree: ast.AST) -> set[str]:
    """The names of the attributes that are read."""
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return {node.attr for node in nodes if isinstance(node.ctx, ast.Load)}


def _attributes_read(made: FoldedClass) -> set[str]:
    """The attributes of ``self`` that a call reads."""
    body = made.body
    nodes = () if body is None else syntax.walk(*body.statements, body.returns)
    return {node.attr for node in nodes if isinstance(node, syntax.Attribute) and node.value == syntax.Name("self")}


def _lines(trees: Sequence[syntax.Node]) -> list[str]:
    """The texts in some statements."""
    return [node.text for node in syntax.walk(*trees) if isinstance(node, syntax.Lines)]


def _mentions_options(lines: syntax.Lines) -> bool:
    names = {node.id for node in ast.walk(ast.parse(lines.text)) if isinstance(node, ast.Name)}
    return OPTIONS in names | names_in(*lines.parts)


def code_statement(text: str) -> syntax.Stmt:
    """An assignment."""
    target, _, value = text.partition(" = ")
    return syntax.Assign(code(target), code(value))


def _only_so(cls: str, name: str, value: syntax.Expr) -> syntax.Stmt:
    """A refusal of other values of an argument."""
    message = f"{cls} is written for {name}={syntax.source(value)} alone"
    error = code("ValueError(message)", message=message)
    test = "is not" if value in (syntax.Const(None), syntax.Const(True), syntax.Const(False)) else "!="
    return syntax.If(syntax.Compare(syntax.Name(name), (test,), (value,)), (syntax.Raise(error),))


def _options_by_name() -> tuple[syntax.Parameter, ...]:
    return (
        syntax.Parameter("dtype", syntax.Name("Any"), syntax.Const(None), kind="name"),
        syntax.Parameter("param_dtype", syntax.Name("Any"), code("jnp.float32"), kind="name"),
        syntax.Parameter("rngs", code("nnx.Rngs"), kind="name"),
    )


def _ordered(parameters: Sequence[syntax.Parameter]) -> tuple[syntax.Parameter, ...]:
    """Parameters in the order that Python wants: what gathers those by name is last."""
    return tuple(sorted(parameters, key=lambda each: each.kind == "**"))


_SIMPLE = {"int", "float", "bool", "str", "tuple", "list", "dict", "None"}


def _annotation(annotation: Any) -> syntax.Expr:
    """A parameter's annotation, if it is one of Python's own types; else ``Any``."""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    if not isinstance(annotation, str) and getattr(annotation, "__args__", None):
        text = str(annotation)
    try:
        names = {node.id for node in ast.walk(ast.parse(text, mode="eval")) if isinstance(node, ast.Name)}
        return syntax.parsed(text) if text and names <= _SIMPLE else syntax.Name("Any")
    except SyntaxError:
        return syntax.Name("Any")
