"""Build the classes to write: what each instance holds, and one class for instances that are alike."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

from port.translation.ir import syntax
from port.translation.ir.expr import code
from port.translation.ir.module_calls import key_of
from port.translation.ir.module_tree import LAYERS, ModuleTree, identifier, paths_above
from port.translation.lowering.rules.parameters import is_sparse
from port.translation.structure.class_merge import ClassForm, FoldedClass, fold
from port.translation.structure.constructors import buffer_form, is_function, layer_form, parameter_form
from port.translation.structure.frozen_parameters import Freezing
from port.translation.structure.held_lists import HeldLists, held_lists, lists_beneath
from port.translation.structure.held_tensors import AllRuns, is_left_out, is_read, layout_held
from port.translation.structure.init_inference import Initial
from port.translation.structure.methods import MethodsDiffer, each_function, has_methods, methods_of
from port.translation.structure.module_loops import with_loops
from port.translation.structure.own_arguments import OwnArguments, constructs_with_configuration
from port.translation.structure.program import Program
from port.translation.structure.said_lengths import settled
from port.translation.structure.sequential import IDENTITY
from port.translation.structure.settled_lengths import with_lengths_settled
from port.translation.structure.written_body import Body
from port.translation.structure.written_calls import WrittenCalls


class InconsistentArguments(Exception):
    """Constructor arguments do not express the numbers of a class consistently across its instances."""

    def __init__(self, original: type) -> None:
        super().__init__(original.__qualname__)
        self.original = original


class ClassBuilding:
    """Builds classes bottom-up: folds the instances of each original class, modules that others hold first."""

    def __init__(
        self,
        runs: AllRuns,
        calls: WrittenCalls,
        tree: ModuleTree,
        initial: Initial,
        arguments: OwnArguments,
    ) -> None:
        self.runs, self.calls, self.tree, self.initial, self.arguments = runs, calls, tree, initial, arguments
        self.classes: list[FoldedClass] = []
        self.constructions: dict[str, syntax.Expr] = {}
        self.freezing = Freezing(tree, self._own_parameters())
        self.layers: set[str] = set()
        self.lists: dict[str, HeldLists] = {}
        self.variables: set[str] = set()

    def program(self) -> Program:
        self._fold()
        calls = self.calls
        return Program(
            tuple(self.classes),
            self.tree,
            numbers=calls.numbers,
            annotations=calls.annotations,
            layers=frozenset(self.layers),
            variables=frozenset(self.variables),
            options=calls.options,
            held=calls.held,
            untaken=calls.untaken,
        )

    def _fold(self) -> None:
        """Fold class by class, modules that others hold first."""
        paths = [path for path in self.tree.modules if self._is_class(path) or self._is_own_sequential(path)]
        waiting: dict[Any, list[str]] = defaultdict(list)
        for path in paths:
            waiting[(type(self.tree.modules[path]), self._level(path))].append(path)
        self.freezing.take_classes(list(waiting.values()))
        taken: set[str] = set()
        while waiting:
            ready = next(
                (key for key in waiting if not any(self._holds_waiting(path, waiting, key) for path in waiting[key])),
                next(iter(waiting)),
            )
            members = waiting.pop(ready)
            if self.tree.kind(members[0]) == "sequential":
                folded = fold([self._sequential_form(path) for path in members], set(taken))
                if len(folded) > 1:
                    continue  # they are written inline
            else:
                forms = [self._form(path) for path in members]
                # A layer of torch whose weights are shared with another: nothing is left of it.
                forms = [form for form in forms if form.attributes or not form.path or form.body is not None]
                folded = self._alike(fold(forms, set(taken)), forms)
                if len(folded) > 1 and any(has_methods(form.body) for form in forms):
                    # Once the methods are inlined, their differences can go under a condition.
                    raise MethodsDiffer({key for form in forms for key in methods_of(form.path, form.body)})
            for made in folded:
                taken.add(made.name)
                self.classes.append(made)
                for path in made.members:
                    self.constructions[path] = made.construction(path)
        self.classes[-1] = replace(self.classes[-1], is_frozen=self.freezing.is_whole)

    def _alike(self, folded: list[FoldedClass], forms: list[ClassForm]) -> list[FoldedClass]:
        """Check that literal numbers would not give fewer classes than arguments do, and return the classes.

        Raises:
            InconsistentArguments: they would.
        """
        if len(folded) > 1 and self.arguments.covers(forms[0].path):
            self.arguments, known = OwnArguments(None, self.tree), self.arguments
            try:
                literal = fold([self._form(form.path) for form in forms], set())
            except InconsistentArguments:
                return folded  # without arguments, a module inside cannot be passed its own
            finally:
                self.arguments = known
            if len(literal) < len(folded):
                raise InconsistentArguments(type(forms[0].module))
        return folded

    def _level(self, path: str) -> int:
        """Nesting depth: how many modules of the same class are inside one another below this one."""
        inside = [
            other
            for other in self.tree.modules
            if other != path
            and f"{other}.".startswith(f"{path}." if path else "")
            and type(self.tree.modules[other]) is type(self.tree.modules[path])
            and self._is_class(other)
        ]
        return 1 + max(map(self._level, inside)) if inside else 0

    def _is_class(self, path: str) -> bool:
        if path and (self.tree.kind(path) != "class" or any(above in self.tree.layers for above in paths_above(path))):
            return False
        return not path or self._is_needed(path)

    def _is_own_sequential(self, path: str) -> bool:
        """Whether a module's class derives from Sequential and has no ``forward`` of its own."""
        import torch

        if not path or self.tree.kind(path) != "sequential" or type(self.tree.modules[path]) is torch.nn.Sequential:
            return False
        if any(above in self.tree.layers for above in paths_above(path)) or self.tree.first_path(path) != path:
            return False
        return self._sequential(path, self.tree.modules[path]) is not None

    def _sequential_form(self, path: str) -> ClassForm:
        made = self._sequential(path, self.tree.modules[path])
        assert isinstance(made, syntax.Call)
        items = {str(number): self._said(path, item) for number, item in enumerate(made.args)}
        arguments = self.arguments.passed(path)
        return ClassForm(path, self.tree.modules[path], items, None, is_sequential=True, arguments=arguments)

    def _is_needed(self, path: str) -> bool:
        module = self.tree.modules[path]
        has_state = bool(list(module.parameters())) or bool(list(module.buffers()))
        return path in self.calls.bodies or has_state or any(path in lowered.extras for lowered in self.runs.values())

    def _holds_waiting(self, path: str, waiting: dict[Any, list[str]], own: Any) -> bool:
        prefix = f"{path}." if path else ""
        return any(
            other != path and other.startswith(prefix)
            for key, others in waiting.items()
            if key != own
            for other in others
        )

    def _form(self, path: str) -> ClassForm:
        module = self.tree.modules[path]
        attributes: dict[str, syntax.Expr] = {}
        for name in module._parameters:
            own = self._own(path, name)
            if own is not None:
                attributes[identifier(name)] = own
        for name, buffer in module._buffers.items():
            if name in module._non_persistent_buffers_set and is_left_out(self.runs, path, name):
                continue
            if buffer is not None and not is_sparse(buffer) and is_read(self.runs, path, name):
                attributes[identifier(name)] = buffer_form(self._start(path, name, buffer))
                self.variables.add(self.tree.flax_path(path, name))
        if self.tree.is_list(path):
            held = {LAYERS: self._list(path, module)}
        else:
            held = {name: self._construction(f"{path}.{name}" if path else name) for name in module._modules}
        attributes |= {identifier(name): made for name, made in held.items() if made is not None}
        for lowered in self.runs.values():
            attributes |= lowered.extras.get(path, {})
        items = attributes
        attributes = {name: self._said(path, made) for name, made in attributes.items()}
        own_lists = held_lists(items, attributes)
        self.lists.setdefault(path, own_lists)
        body = self.calls.bodies.get(path)
        if body is not None:
            body, numbers = self.arguments.in_body(path, body, attributes)
            attributes = {**numbers, **attributes}
            lists = lists_beneath(path, own_lists, self.lists, self.tree, self.calls.bodies)

            def looped(method: str, function: Body) -> Body:
                counts = self.calls.lists.get(key_of(path, method), {})
                known = lists.union(HeldLists({syntax.Name(name): count for name, count in counts.items()}))
                return with_loops(with_lengths_settled(function), known, getattr(type(module), method))

            body = each_function(body, looped)
        idle = (name for name in module._modules if self._is_idle(f"{path}.{name}" if path else name))
        passed = self.arguments.passed(path)
        return ClassForm(
            path, module, attributes, body, arguments=passed, made=items, idle=frozenset(map(identifier, idle))
        )

    def _is_idle(self, path: str) -> bool:
        """Whether a module is called but returns its input unchanged."""
        owner, _, name = path.rpartition(".")
        body = self.calls.bodies.get(owner)
        read = syntax.Attribute(syntax.Name("self"), identifier(name))
        nodes = () if body is None else syntax.walk(*body.statements, body.returns)
        return path in self.tree.idle and (body is None or any(node == read for node in nodes))

    def _said(self, path: str, made: syntax.Expr) -> syntax.Expr:
        """Express a construction in terms of the arguments of the constructor at a path.

        Raises:
            InconsistentArguments: a module in it receives a configuration that this constructor does not have.
        """
        said = self.arguments.in_constructor(path, made)
        lacking = constructs_with_configuration(said)
        if lacking is not None:
            raise InconsistentArguments(next(one.original for one in self.classes if one.name == lacking))
        return said

    def _own(self, path: str, name: str) -> syntax.Expr | None:
        parameter = self.tree.modules[path]._parameters[name]
        if parameter is None or not is_read(self.runs, path, name):
            return None
        self.variables.add(self.tree.flax_path(path, name))
        return parameter_form(self._start(path, name, parameter), kind=self.freezing.kind(path, name))

    def _start(self, path: str, name: str, tensor: Any) -> syntax.Expr:
        """The initial value of a module's own parameter or buffer."""
        key = f"{path}.{name}" if path else name
        sizes, table = self.arguments.sizes(key, tensor), self.arguments.table(key)
        return self.initial.value(key, self._shown(key), tensor, layout_held(self.runs, path, name), sizes, table)

    def _shown(self, path: str) -> str:
        """How the source refers to an attribute: the module's class, and the attribute."""
        owner, _, name = path.rpartition(".")
        return f"{type(self.tree.modules[owner]).__name__}.{name}"

    def _own_parameters(self) -> list[tuple[str, str]]:
        """The modules' own parameters that are written: module path and name."""
        return [
            (path, name)
            for path, module in self.tree.modules.items()
            if self.tree.first_path(path) == path
            and not any(part in self.tree.layers for part in (*paths_above(path), path))
            for name, parameter in module._parameters.items()
            if parameter is not None and is_read(self.runs, path, name)
        ]

    def _construction(self, path: str) -> syntax.Expr | None:
        """The construction of a child module, wrapped in ``frozen`` if need be; None where nothing is left of it."""
        return self.freezing.construction(path, self._made(path))

    def _made(self, path: str) -> syntax.Expr | None:
        module = self.tree.modules.get(path)
        if module is None:
            return None
        if self.tree.first_path(path) != path:
            return None  # it is built, and called, under its first name
        match self.tree.kind(path):
            case "layer":
                if is_function(module):
                    return None
                self.layers.add(path)
                initial = self.initial.of_layer(path, self._shown(path), module)
                return layer_form(module, *initial, known=self.arguments.layer(path))
            case "sequential":
                return self.constructions.get(path) or self._sequential(path, module)
            case "list":
                if module._parameters:
                    items = [self._own(path, name) for name in module._parameters]
                    return code("nnx.List(items)", items=[item for item in items if item is not None])
                return self._list(path, module)
            case "dict":
                made = {name: self._construction(f"{path}.{name}") for name in module._modules}
                made |= {name: self._own(path, name) for name in module._parameters}
                kept = {name: item for name, item in made.items() if item is not None}
                return code("nnx.Dict(items)", items=kept) if kept else None
        return self.constructions.get(path)

    def _list(self, path: str, module: Any) -> syntax.Expr | None:
        items = [self._construction(f"{path}.{name}" if path else name) for name in module._modules]
        filled = [item or code(IDENTITY) for item in items]
        return code("nnx.List(items)", items=filled) if any(items) else None

    def _sequential(self, path: str, module: Any) -> syntax.Expr | None:
        functions = self.calls.elements.get(path, {})
        made: list[syntax.Expr] = []
        for name in module._modules:
            function = functions.get(name)
            built = settled(function) if function is not None else self._construction(f"{path}.{name}")
            made.append(built if built is not None else code(IDENTITY))
        if path not in self.calls.bodies and all(item == code(IDENTITY) for item in made):
            return None
        return syntax.Call(code("nnx.Sequential"), tuple(made))
