"""Import torch.export's program, with the notes behind its marks, as a `Graph`."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any, cast

import torch
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree

from port.errors import NoPair
from port.translation.frontend.constants import memory_of
from port.translation.frontend.instrument import Noted, NotedFunction, Notes, TensorSlot
from port.translation.frontend.source_locations import is_without_gradient, place_of
from port.translation.frontend.strided_views import recognised_view
from port.translation.ir.function_calls import FunctionEnter, FunctionExit
from port.translation.ir.graph import Graph, LayerCall, Operation, Size, Step, Value
from port.translation.ir.module_calls import ScopeEnter, ScopeExit
from port.translation.ir.symbolic_lengths import guard_on, length_names, renamed

_CHECKS = ("_assert_scalar", "_assert_tensor_metadata", "_assert_async", "sym_constrain_range")
# For a free batch length, torch's fake kernel returns a scalar even when reduction is "none".
_BY_CLASSES = ("aten.nll_loss_nd.default", "aten.cross_entropy_loss.default")


def read_graph(
    program: torch.export.ExportedProgram,
    notes: Notes,
    *,
    prefix: str,
    names: dict[Any, str],
    groups: Iterable[Collection[tuple[int, int]]] = (),
    guards: Iterable[str] = (),
    own_gradients: Iterable[str] = (),
) -> Graph:
    """Convert an exported program to a `Graph`.

    Args:
        program: the program, in functional form: nothing in it writes in place.
        notes: what its marks and layer nodes refer to.
        prefix: prefix of the module's names within the program.
        names: memory → name of a parameter or buffer, to recognise one that a closure holds.
        groups: groups of input axes that have the same length, by the tensors' numbers.
        guards: torch's conditions on the lengths of the inputs under which the program is valid.
        own_gradients: the functions whose custom gradient the program lacks.

    Raises:
        NoPair: torch's control flow (a higher-order operator), or a custom operator that writes to its arguments.
    """
    reader = _Reader(program, notes, prefix, names, groups)
    for node in program.graph.nodes:
        reader.read(node)
    shapes = tuple(value.shape or () for value in reader.inputs)
    return Graph(
        tuple(reader.inputs),
        reader.held,
        reader.constants,
        tuple(reader.steps),
        reader.written,
        tuple(own_gradients),
        tuple(said for guard in guards if (said := guard_on(guard, shapes)) is not None),
    )


class _Reader:
    def __init__(
        self,
        program: torch.export.ExportedProgram,
        notes: Notes,
        prefix: str,
        names: dict[Any, str],
        groups: Iterable[Collection[tuple[int, int]]],
    ) -> None:
        self.program, self.notes, self.prefix, self.names = program, notes, prefix, names
        self.inputs: list[Value] = []
        self.held: dict[Value, str] = {}
        self.constants: dict[Value, Any] = {}
        self.steps: list[Step] = []
        self.written: dict[str, Value] = {}
        self.specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
        self.values: dict[torch.fx.Node, Any] = {}
        inputs = [node.meta["val"] for node in program.graph.nodes if self._is_input(node)]
        self.lengths = length_names([tuple(map(_size, getattr(made, "shape", ()))) for made in inputs], groups)

    def _is_input(self, node: torch.fx.Node) -> bool:
        return node.op == "placeholder" and self.specs[node.name].kind is InputKind.USER_INPUT

    def read(self, node: torch.fx.Node) -> None:
        if node.op == "placeholder":
            self._placeholder(node)
        elif node.op == "call_function":
            self._call(node)
        elif node.op == "output":
            self._output(node)
        elif node.op == "get_attr":
            # The body of a higher-order operator such as torch.cond; the call that follows uses it.
            self.values[node] = getattr(self.program.graph_module, str(node.target), None)

    def _placeholder(self, node: torch.fx.Node) -> None:
        spec = self.specs[node.name]
        value = self.values[node] = self._value(node.name, node.meta["val"])
        if self._is_input(node):
            self.inputs.append(value)
        elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER):
            self.held[value] = spec.target.removeprefix(self.prefix)
        else:
            self._constant(node, value, self.program.constants[spec.target])

    def _constant(self, node: torch.fx.Node, value: Value, tensor: Any) -> None:
        name = self.names.get(memory_of(tensor))
        held = next((known for known, path in self.held.items() if path == name), None)
        if held is None:
            self.constants[value] = tensor
        else:
            self.values[node] = held

    def _call(self, node: torch.fx.Node) -> None:
        target = node.target
        if target is operator.getitem:
            self.values[node] = self.values[node.args[0]][node.args[1]]  # type: ignore[index]
            return
        name = getattr(target, "__name__", str(target))
        if isinstance(target, torch._ops.OpOverload):
            name = str(target)
        if name in ("port_translation.layer.default", "port_translation.mark.default"):
            self._own(node, name)
        elif not any(check in name for check in _CHECKS):
            self._operation(node, name)

    def _own(self, node: torch.fx.Node, name: str) -> None:
        key, tensors, sizes = cast("tuple[str, Any, Any]", node.args)
        function = self.notes.functions.get(key)
        if function is not None:
            filling = {"tensor": self._known(tensors), "size": self._known(sizes)}
            self.steps.append(_mark_of_function(function, filling, node, begins=key.endswith(">")))
            return
        noted = self.notes.calls[key]
        filling = {"tensor": self._known(tensors), "size": self._known(sizes)}
        if name == "port_translation.mark.default":
            step: Step
            if key.endswith(">"):
                filled = _filled(noted.keywords, filling)
                step = ScopeEnter(
                    noted.path, noted.call, noted.module, filled, place_of(node), noted.numbers, noted.method
                )
            else:
                step = ScopeExit(noted.path, noted.call, _filled(noted.results, filling), noted.method)
                for name, value in _filled(noted.keywords, filling).items():
                    self.written[f"{noted.path}.{name}" if noted.path else name] = value
            self.steps.append(step)
            return
        results = tuple(self._value(f"{node.name}_{i}", item) for i, item in enumerate(node.meta["val"]))
        self.values[node] = results
        self.steps.append(self._layer(noted, filling, results, node))

    def _layer(self, noted: Noted, filling: Any, results: tuple[Value, ...], node: torch.fx.Node) -> LayerCall:
        arguments, keywords = _filled((noted.arguments, noted.keywords), filling)
        filled = _filled(noted.results, {"tensor": results, "size": ()})
        detached = is_without_gradient(node)
        return LayerCall(noted.path, noted.module, arguments, keywords, filled, place_of(node), detached, noted.numbers)

    def _operation(self, node: torch.fx.Node, name: str) -> None:
        if name.startswith("auto_functionalized"):
            raise NoPair(
                f"{place_of(node)}: {node.args[0]} writes to its arguments, which no pair can express: let it return "
                "its result instead, with mutates_args=()"
            )
        if isinstance(node.target, torch._ops.HigherOrderOperator):
            raise NoPair(f"{place_of(node)}: torch's {name} is kept as control flow in the graph; write it without")
        made = node.meta.get("val")
        if isinstance(made, tuple | list):
            results = tuple(self._value(f"{node.name}_{i}", item) for i, item in enumerate(made))
            self.values[node] = results
        else:
            results = (self._value(node.name, made),)
            self.values[node] = results[0]
        several = isinstance(made, tuple | list)
        name, arguments = recognised_view(node, name, self._arguments(node))
        place = place_of(node)
        if name in _BY_CLASSES and arguments["reduction"] == 0:
            shape = arguments["self"].shape
            results = (replace(results[0], shape=(*shape[:1], *shape[2:]) if len(shape) > 1 else ()),)
            self.values[node] = results[0]
        detached, numbers = is_without_gradient(node), self.notes.origins.of_node(node, arguments)
        self.steps.append(Operation(name, arguments, results, several, place, detached, numbers))

    def _arguments(self, node: torch.fx.Node) -> dict[str, Any]:
        args, kwargs = self._known(node.args), self._known(node.kwargs)
        if not isinstance(node.target, torch._ops.OpOverload):
            return {str(number): argument for number, argument in enumerate(args)} | kwargs
        arguments: dict[str, Any] = {}
        for number, argument in enumerate(node.target._schema.arguments):
            if number < len(args):
                arguments[argument.name] = args[number]
            elif argument.name in kwargs:
                arguments[argument.name] = kwargs[argument.name]
            else:
                arguments[argument.name] = argument.default_value if argument.has_default_value() else None
        return arguments

    def _known(self, tree: Any) -> Any:
        """Replace nodes by our values in a tree of arguments, and return it as plain tuples, lists and dicts."""
        match tree:
            case torch.fx.Node():
                return self.values[tree]
            case tuple():
                return tuple(map(self._known, tree))
            case list():
                return list(map(self._known, tree))
            case dict():
                return {key: self._known(item) for key, item in tree.items()}
            case _:
                return tree

    def _output(self, node: torch.fx.Node) -> None:
        returned = node.args[0]
        for spec, result in zip(self.program.graph_signature.output_specs, returned, strict=True):  # type: ignore[arg-type]
            if spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION):
                self.written[str(spec.target).removeprefix(self.prefix)] = self.values[result]

    def _value(self, name: str, made: Any) -> Value:
        if isinstance(made, torch.Tensor):
            shape = tuple(renamed(_size(length), self.lengths) for length in made.shape)
            return Value(name, shape, str(made.dtype).removeprefix("torch."))
        length = _size(made) if isinstance(made, int | torch.SymInt) else str(made)
        return Value(name, None, "size", renamed(length, self.lengths))


def _mark_of_function(noted: NotedFunction, filling: dict[str, Any], node: torch.fx.Node, *, begins: bool) -> Step:
    if not begins:
        return FunctionExit(noted.function, noted.call, _filled(noted.results, filling))
    filled, place = _filled(noted.arguments, filling), place_of(node)
    return FunctionEnter(noted.function, noted.call, filled, noted.positional, noted.named, place, noted.numbers)


def _filled(tree: Any, filling: dict[str, Any]) -> Any:
    return pytree.tree_map(lambda leaf: filling[leaf.kind][leaf.number] if isinstance(leaf, TensorSlot) else leaf, tree)


def _size(length: Any) -> Size:
    text = str(length)  # a symbolic length that torch has fixed prints as its number
    return int(text) if text.isdigit() else text
