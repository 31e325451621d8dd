"""Builds classes whose constructors are written as the original's source has them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from port.translation.frontend.construction.construction_calls import (
    ConstructionCalls,
    inherits_a_layers_constructor,
    is_own,
)
from port.translation.ir import syntax
from port.translation.ir.expr import NoSource, literal
from port.translation.ir.module_tree import ModuleTree, identifier
from port.translation.structure.class_building import ClassBuilding
from port.translation.structure.class_merge import ClassForm
from port.translation.structure.constructors import function_form, is_function
from port.translation.structure.held_tensors import AllRuns
from port.translation.structure.init_inference import Initial
from port.translation.structure.kept_constructors.call_forms import CallForms
from port.translation.structure.kept_constructors.called_arguments import CalledArguments
from port.translation.structure.kept_constructors.cannot_keep import CannotKeep
from port.translation.structure.kept_constructors.kept import HeldNames, Keeping, has_own_constructor
from port.translation.structure.program import Program
from port.translation.structure.written_calls import WrittenCalls

_THERE = syntax.Const(...)
"""In the place of what makes an attribute: that is in the original's source."""


class KeptBuilding(ClassBuilding):
    """The classes on their way.

    Args:
        fixed: arguments of the root's constructor that take no other values.
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
        super().__init__(runs, calls, tree, initial, CalledArguments(made, tree))
        self._made_calls, self._fixed = made, fixed
        self._forms: dict[type, list[ClassForm]] = defaultdict(list)
        self._tensors: dict[type, dict[str, tuple[syntax.Expr, ...]]] = defaultdict(dict)

    def program(self) -> Program:
        """The program.

        Raises:
            CannotKeep: a constructor cannot be written so.
        """
        if not all(parameter.requires_grad for parameter in self.tree.root.parameters()):
            raise CannotKeep("some of its parameters are frozen")
        program = super().program()
        layers = frozenset(type(module) for module in self.tree.layers.values())
        forms = CallForms(self._made_calls, self.tree, self._layer, self._left_out())
        held = {cls: self._held(cls) for cls in self._forms}
        keeping = Keeping(self._made_calls, forms, layers, program.classes, held)
        kept = keeping.kept({name: self._literal(name) for name in sorted(self._fixed)})
        return replace(program, classes=kept.classes, definitions=kept.definitions, imports=kept.imports)

    def _literal(self, name: str) -> syntax.Expr:
        """An argument of the root's that takes no other value."""
        try:
            return literal(self._made_calls.root[name])
        except NoSource:
            raise CannotKeep(f"{name} is something else than where it stays as it is") from None

    def _form(self, path: str) -> ClassForm:
        form = super()._form(path)
        if not is_own(type(form.module)):
            return form
        own = {identifier(name): name for name in _names(form.module)}
        if others := sorted(form.attributes.keys() - own.keys()):
            raise CannotKeep(f"{type(form.module).__name__} holds {others[0]}, which the original does not")
        tensors = self._tensors[type(form.module)]
        for name in (*form.module._parameters, *form.module._buffers):
            if identifier(name) in form.attributes:
                tensors[name] = (*tensors.get(name, ()), form.attributes[identifier(name)])
        return self._taken(form, dict.fromkeys(form.attributes, _THERE))

    def _sequential_form(self, path: str) -> ClassForm:
        return self._taken(super()._sequential_form(path), {})

    def _taken(self, form: ClassForm, attributes: Mapping[str, syntax.Expr]) -> ClassForm:
        """An instance whose attributes its constructor's own source makes."""
        cls = type(form.module)
        if not has_own_constructor(cls) and not inherits_a_layers_constructor(cls):
            raise CannotKeep(f"{cls.__name__} has no constructor of its own")
        self._forms[cls].append(form)
        return replace(form, attributes=attributes)

    def _left_out(self) -> frozenset[str]:
        """The paths of modules that are an attribute of the original's and none of the written one's."""
        return frozenset(
            f"{form.path}.{name}" if form.path else name
            for forms in self._forms.values()
            for form in forms
            for name in (() if form.is_sequential else form.module._modules)
            if identifier(name) not in form.attributes
        )

    def _held(self, cls: type) -> HeldNames:
        forms = self._forms[cls]
        modules = {name for form in forms for name in _names(form.module)}
        if forms[0].is_sequential:
            return HeldNames(frozenset(modules), frozenset(modules), frozenset(), {})
        written = {name for form in forms for name in form.attributes}
        lacking = {
            name for name in written for form in forms if name not in form.attributes and not hasattr(form.module, name)
        }
        return HeldNames(frozenset(modules), frozenset(written), frozenset(lacking), self._tensors[cls])

    def _layer(self, path: str) -> syntax.Expr | None:
        """What is written for a layer."""
        module = self.tree.modules[path]
        if self.tree.kind(path) != "layer" or not is_function(module):
            return self._made(path)
        owner, _, name = path.rpartition(".")
        element = self.calls.elements.get(owner, {}).get(name)
        return function_form(module) if element is None else element


def _names(module: Any) -> list[str]:
    held: list[Mapping[str, Any]] = [module._modules, module._parameters, module._buffers]
    return [name for each in held for name in each]
