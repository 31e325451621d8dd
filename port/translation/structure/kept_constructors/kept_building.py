"""Build classes whose constructors are translated from the original's source."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from port.translation.frontend.construction.construction_calls import (
    ConstructionCalls,
    inherits_a_layers_constructor,
    is_own,
)
from port.translation.ir import syntax
from port.translation.ir.expr import NoSource, code, literal, names_in
from port.translation.ir.module_tree import LAYERS, ModuleTree, identifier
from port.translation.ir.origin import AttributeOf
from port.translation.ir.origin_expression import leaves_of
from port.translation.structure.class_building import ClassBuilding
from port.translation.structure.class_merge import ClassForm, FoldedClass
from port.translation.structure.constructors import function_form, is_function
from port.translation.structure.held_tensors import AllRuns, layout_held
from port.translation.structure.init_inference import Initial
from port.translation.structure.kept_constructors.call_forms import CallForms
from port.translation.structure.kept_constructors.called_arguments import CalledArguments
from port.translation.structure.kept_constructors.cannot_keep import CannotKeep
from port.translation.structure.kept_constructors.held_names import NOTHING_HELD, HeldNames
from port.translation.structure.kept_constructors.kept import Keeping, has_own_constructor
from port.translation.structure.kept_constructors.statement_writer import IDLE_MODULE
from port.translation.structure.program import Program
from port.translation.structure.sequential import IDENTITY
from port.translation.structure.written_calls import WrittenCalls

_THERE = syntax.Const(...)
"""Placeholder for an attribute's construction, which is in the original's source."""


class KeptBuilding(ClassBuilding):
    """Builds the classes of a program with translated constructors.

    Args:
        fixed: arguments of the root's constructor that accept one value only.
    """

    def __init__(
        self,
        runs: AllRuns,
        calls: WrittenCalls,
        tree: ModuleTree,
        initial: Initial,
        made: ConstructionCalls,
        fixed: frozenset[str],
    ) -> None:
        self._numbers = CalledArguments(made, tree, partial(layout_held, runs))
        super().__init__(runs, calls, tree, initial, self._numbers)
        self._made_calls, self._fixed = made, fixed
        self._forms: dict[type, list[ClassForm]] = defaultdict(list)
        self._added: dict[type, list[dict[str, syntax.Expr]]] = defaultdict(list)
        self._tensors: dict[type, dict[str, tuple[syntax.Expr, ...]]] = defaultdict(dict)

    def program(self) -> Program:
        """Build the program.

        Raises:
            CannotKeep: a constructor cannot be translated.
        """
        if not all(parameter.requires_grad for parameter in self.tree.root.parameters()):
            raise CannotKeep("some of its parameters are frozen")
        program = super().program()
        written = sorted(self._made_calls.written, key=lambda cls: len(cls.__mro__))
        layers = frozenset(type(module) for module in self.tree.layers.values()) - self._made_calls.written
        forms = CallForms(self._made_calls, self.tree, self._layer, self._left_out())
        apart = self._apart()
        held = {cls: self._held(cls) for cls in self._forms} | dict.fromkeys(written, NOTHING_HELD) | apart
        others = [FoldedClass(cls.__name__, (), cls, (), {}, None) for cls in (*written, *apart)]
        keeping = Keeping(self._made_calls, forms, layers, (*others, *program.classes), held)
        kept = keeping.kept({name: self._literal(name) for name in sorted(self._fixed)})
        return replace(program, classes=kept.classes, definitions=kept.definitions, imports=kept.imports)

    def _apart(self) -> dict[type, HeldNames]:
        """The names held by modules that were created for constructors, and of which the model holds only parts."""
        written = {
            id(child)
            for forms in self._forms.values()
            for form in forms
            for name, child in self._made_calls.modules[form.path]._modules.items()
            if identifier(name) in form.attributes or self.tree.is_list(form.path)
        }
        found: dict[type, HeldNames] = {}
        for module in self._made_calls.apart:
            if not is_own(type(module)) or type(module) in self._forms:
                continue
            names = {
                name
                for name, child in module._modules.items()
                if child is not None and any(id(inside) in written for inside in child.modules())
            }
            before = found.get(type(module), NOTHING_HELD)
            modules = before.modules | module._modules.keys()
            found[type(module)] = HeldNames(modules, before.written | names, frozenset(), {})
        return found

    def _literal(self, name: str) -> syntax.Expr:
        """The value of a root argument that accepts one value only."""
        try:
            return literal(self._made_calls.root[name])
        except NoSource:
            raise CannotKeep(f"the fixed argument {name} has no source form") from None

    def _made(self, path: str) -> syntax.Expr | None:
        made = super()._made(path)
        if made is None and self._is_idle(path):  # the original's constructor makes it
            return code(IDENTITY) if self.tree.kind(path) == "layer" else IDLE_MODULE
        return made

    def _form(self, path: str) -> ClassForm:
        form = super()._form(path)
        if not is_own(type(form.module)):
            return form
        own = {identifier(name) for name in self._names(form)}
        added = {name: made for name, made in form.attributes.items() if name not in own}
        form, added = self._with_free_names(form, added)
        self._added[type(form.module)].append(added)
        tensors = self._tensors[type(form.module)]
        for name in (*form.module._parameters, *form.module._buffers):
            if identifier(name) in form.attributes:
                tensors[name] = (*tensors.get(name, ()), form.attributes[identifier(name)])
        return self._taken(form, dict.fromkeys(form.attributes, _THERE))

    def _with_free_names(
        self, form: ClassForm, added: Mapping[str, syntax.Expr]
    ) -> tuple[ClassForm, dict[str, syntax.Expr]]:
        """Rename what an instance has in JAX only, where the original has an attribute of that name.

        If the original has a rate ``dropout``, the dropout layer is called ``dropout_layer``.
        """
        names = {name: f"{name}_layer" if hasattr(form.module, name) else name for name in added}

        def of(node: syntax.Node) -> syntax.Node:
            match node:
                case syntax.Call(func=syntax.Attribute(value=syntax.Name("self"), attr=name)) if name in names:
                    return replace(node, func=syntax.Attribute(syntax.Name("self"), names[name]))
            return node

        body = form.body
        if body is not None:
            statements = tuple(syntax.transformed(each, of) for each in body.statements)
            body = replace(body, statements=statements, returns=body.returns and syntax.transformed(body.returns, of))
        attributes = {names.get(name, name): made for name, made in form.attributes.items()}
        said = {names[name]: self._numbers.said_by_attributes(form.path, made) for name, made in added.items()}
        if any(map(_is_of_another, syntax.walk(*said.values()))):
            raise CannotKeep(f"{type(form.module).__name__} draws random numbers with a value of another module")
        return replace(form, attributes=attributes, body=body), said

    def _sequential_form(self, path: str) -> ClassForm:
        return self._taken(super()._sequential_form(path), {})

    def _taken(self, form: ClassForm, attributes: Mapping[str, syntax.Expr]) -> ClassForm:
        """An instance whose attributes its translated constructor creates."""
        cls = type(form.module)
        if not has_own_constructor(cls) and not inherits_a_layers_constructor(cls):
            raise CannotKeep(f"{cls.__name__} has no constructor of its own")
        self._forms[cls].append(form)
        return replace(form, attributes=attributes)

    def _left_out(self) -> frozenset[str]:
        """The paths of child modules that the written module does not hold."""
        return frozenset(
            f"{form.path}.{name}" if form.path else name
            for forms in self._forms.values()
            for form in forms
            for name in (() if form.is_sequential or self.tree.is_list(form.path) else form.module._modules)
            if identifier(name) not in form.attributes
        )

    def _held(self, cls: type) -> HeldNames:
        forms = self._forms[cls]
        modules = {name for form in forms for name in self._names(form)}
        if forms[0].is_sequential:
            return HeldNames(frozenset(modules), frozenset(modules), frozenset(), {})
        written = {name for form in forms for name in form.attributes}
        lacking = {
            name for name in written for form in forms if name not in form.attributes and not hasattr(form.module, name)
        }
        added, *others = self._added[cls]
        for other in others:
            if other != added:
                raise CannotKeep(f"the instances of {cls.__name__} differ in what they hold in JAX only")
        is_list = self.tree.is_list(forms[0].path)
        tensors = self._tensors[cls]
        # A number may be an argument's: the constructor's statement says so, and not the number.
        numbers = {name for name, buffer in forms[0].module._buffers.items() if buffer is not None and not buffer.ndim}
        tables = frozenset(
            name
            for name, starts in tensors.items()
            if name in numbers or any("TABLES" in names_in(start) for start in starts)
        ).intersection(*({name for name in form.module._buffers if self._lies_as_torchs(form, name)} for form in forms))
        return HeldNames(frozenset(modules), frozenset(written), frozenset(lacking), tensors, added, is_list, tables)

    def _lies_as_torchs(self, form: ClassForm, name: str) -> bool:
        layout = layout_held(self.runs, form.path, name)
        return layout.is_torchs and layout.folded is None

    def _names(self, form: ClassForm) -> list[str]:
        """The original's names for what an instance holds, under which the written instance holds it too."""
        module = form.module
        modules = [LAYERS] if self.tree.is_list(form.path) else module._modules
        return [*modules, *module._parameters, *module._buffers]

    def _layer(self, path: str) -> syntax.Expr | None:
        """Write a layer, or a parameter in a list or dict."""
        if path not in self.tree.modules:
            owner, _, name = path.rpartition(".")
            return self._own(owner, name)
        module = self.tree.modules[path]
        if self.tree.kind(path) != "layer" or not is_function(module):
            return self._made(path)
        owner, _, name = path.rpartition(".")
        element = self.calls.elements.get(owner, {}).get(name)
        return function_form(module) if element is None else element


def _is_of_another(node: syntax.Node) -> bool:
    """Whether a number still refers to an attribute after the module's own attributes were substituted."""
    origin = node.origin if isinstance(node, syntax.Const) else None
    return origin is not None and any(isinstance(each, AttributeOf) for each in leaves_of(origin))
