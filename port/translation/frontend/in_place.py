"""Replace in-place operators by functional ones, node by node, where nothing aliases what is written."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Graph, Node
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from port.translation.frontend.composite_operators import (
    DECOMPOSED,
    is_composite,
    is_taken_apart,
    knows_which_stay,
    stays,
)

_OURS = "port_translation"
_CONTEXT_DEPENDENT = frozenset(("alias", "detach", "dropout", "lift_fresh", "lift_fresh_copy"))
"""Operators that torch replaces or removes depending on their context."""


def replace_in_place_operators(program: Any) -> bool:
    """Make a program functional by local rewrites; return False, and leave it unchanged, where they do not suffice.

    An in-place operator becomes its functional variant, and later readers read the variant's result. That suffices
    where nothing else, such as a view, aliases the tensor. Composite operators are decomposed.

    Args:
        program: a ``torch.export.ExportedProgram``; changed in place.
    """
    graph = program.graph_module.graph
    if not knows_which_stay() or not all(map(_is_simple, graph.nodes)) or not _Aliases(graph).are_writes_unaliased():
        return False
    _replace_writes(graph)
    parts = _Parts(graph)
    for node in list(graph.nodes):
        if _name(node) in DECOMPOSED and is_composite(node.target):
            parts.take_apart(node)
    graph.eliminate_dead_code()
    return True


def _is_simple(node: Node) -> bool:
    target = node.target
    if node.op in ("placeholder", "output"):
        return True
    if node.op != "call_function" or isinstance(target, torch._ops.HigherOrderOperator):
        return False
    if not isinstance(target, torch._ops.OpOverload) or target.namespace == _OURS:
        return True  # a Python operator on lengths
    if target.namespace != "aten" or _name(node) in _CONTEXT_DEPENDENT:
        return False
    if target._schema.is_mutable:
        return isinstance(node.args[0], Node) and _has_same_result(node)
    if is_composite(target):
        return stays(target) or _name(node) in DECOMPOSED
    return not is_taken_apart(target)


def _name(node: Node) -> str:
    """Return the name of an ATen operator; empty for any other."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return ""
    return str(target._schema.name).partition("::")[2]


def _has_same_result(node: Node) -> bool:
    """Whether an in-place operator's functional variant returns the dtype, shape and strides of the written tensor."""
    plain = _functional_variant(node.target)
    if plain is None or any("val" not in known.meta for known in node.all_input_nodes):
        return False
    args, kwargs = pytree.tree_map_only(Node, lambda known: known.meta["val"], (node.args, node.kwargs))
    with _unguarded(args[0]):
        made = plain(*args, **kwargs)
    return _described(made) == _described(args[0])


@contextmanager
def _unguarded(tensor: Any) -> Iterator[None]:
    """Rerun operators for their shapes without adding guards on lengths, within the context."""
    environment = tensor.fake_mode.shape_env if isinstance(tensor, FakeTensor) else None
    with torch.no_grad(), nullcontext() if environment is None else environment.suppress_guards():
        yield


def _described(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.dtype, str(tensor.size()), str(tensor.stride())


def _takes(operator: Any) -> list[tuple[str, str]]:
    return [(argument.name, str(argument.type)) for argument in operator._schema.arguments]


def _functional_variant(target: Any) -> Any:
    """Return the functional variant of an operator that writes to its first operand; None where there is none."""
    schema = target._schema
    written = [argument.name for argument in schema.arguments if argument.alias_info and argument.alias_info.is_write]
    if written != [schema.arguments[0].name] or len(schema.returns) != 1 or is_composite(target):
        return None
    packet = getattr(torch.ops.aten, schema.name.partition("::")[2].removesuffix("_"), None)
    found = getattr(packet, target._overloadname, None)
    # torch.jit also has overloads on plain numbers: ldexp(float, int).
    if found is None or _takes(found) != _takes(target) or found._schema.is_mutable:
        return None
    if is_composite(found) and not stays(found):
        return None
    return None if is_taken_apart(found) else found


class _Aliases:
    """Which values of a graph may share memory, as a view and its base do."""

    def __init__(self, graph: Graph) -> None:
        self.nodes = list(graph.nodes)
        self.position = {node: number for number, node in enumerate(self.nodes)}
        self.memory = {node: {node} for node in self.nodes}
        for node in self.nodes:
            for other in _may_share(node):
                self._join(node, other)

    def _join(self, one: Node, other: Node) -> None:
        together = self.memory[one] | self.memory[other]
        for node in together:
            self.memory[node] = together

    def are_writes_unaliased(self) -> bool:
        """Whether each write is to an intermediate value that had no alias before it."""
        return all(map(self._is_write_unaliased, filter(_writes, self.nodes)))

    def _is_write_unaliased(self, node: Node) -> bool:
        # Successive writes to one tensor are not aliases of each other.
        names, name = {node}, node.args[0]
        while isinstance(name, Node):
            if name.op == "placeholder":
                return False
            names.add(name)
            name = name.args[0] if _writes(name) else None
        here = self.position[node]
        others = self.memory[node] - names
        return not any(other.op == "placeholder" or self.position[other] < here for other in others)


def _writes(node: Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def _may_share(node: Node) -> Iterator[Node]:
    if node.target is operator.getitem:
        whole = node.all_input_nodes[0]
        if getattr(whole.target, "namespace", "") != _OURS:
            yield whole
    if not isinstance(node.target, torch._ops.OpOverload) or node.target.namespace == _OURS:
        return
    schema = node.target._schema
    if any(result.alias_info is not None for result in schema.returns):
        for number, argument in enumerate(schema.arguments):
            if argument.alias_info is not None and number < len(node.args):
                yield from (leaf for leaf in pytree.tree_leaves(node.args[number]) if isinstance(leaf, Node))


def _replace_writes(graph: Graph) -> None:
    position = {node: number for number, node in enumerate(graph.nodes)}
    for node in list(graph.nodes):
        if _writes(node):
            written, here = node.args[0], position[node]
            assert isinstance(written, Node)
            node.target = _functional_variant(node.target)
            written.replace_all_uses_with(node, lambda user, here=here: position[user] > here)  # type: ignore[misc]


class _Parts:
    """Replaces composite operators by their decompositions."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def take_apart(self, node: Node) -> None:
        """Replace a composite operator by the operators it is composed of."""
        nodes = {id(known.meta["val"]): known for known in node.all_input_nodes}
        lengths = {_formula(known.meta["val"]): known for known in node.all_input_nodes}
        args, kwargs = pytree.tree_map_only(Node, lambda known: known.meta["val"], (node.args, node.kwargs))
        with self.graph.inserting_before(node), _unguarded(args[0]), _Recording(self.graph, node, nodes, lengths):
            made = node.target.decompose(*args, **kwargs)  # type: ignore[union-attr]
        if isinstance(made, torch.Tensor):
            node.replace_all_uses_with(nodes[id(made)])
        else:
            for user in list(node.users):
                user.replace_all_uses_with(nodes[id(made[user.args[1]])])  # type: ignore[index]
                self.graph.erase_node(user)
        self.graph.erase_node(node)


class _Recording(TorchDispatchMode):
    """Dispatch mode that also records every operator in a graph."""

    def __init__(self, graph: Graph, whole: Node, nodes: dict[int, Node], lengths: dict[str, Node]) -> None:
        super().__init__()
        self.graph, self.whole, self.nodes, self.lengths = graph, whole, nodes, lengths
        self.alive: list[Any] = []  # an id is unique only while its object is alive

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        made = func(*args, **kwargs)
        if not isinstance(made, torch.Tensor | tuple | list):
            return made  # a query of a device or a length
        args, kwargs = pytree.tree_map(self._named, (args, kwargs))
        node = self._new(func, args, kwargs, made)
        if isinstance(made, torch.Tensor):
            self.nodes[id(made)] = node
        else:
            for number, item in enumerate(made):
                self.nodes[id(item)] = self._new(operator.getitem, (node, number), {}, item)
        return made

    def _named(self, leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return self.nodes[id(leaf)]
        if not isinstance(leaf, torch.SymInt):
            return leaf
        formula = _formula(leaf)
        if formula.isdigit():
            return int(formula)
        if formula not in self.lengths:
            self.lengths[formula] = self._new(torch.sym_int, (), {}, leaf)
        return self.lengths[formula]

    def _new(self, target: Any, args: Any, kwargs: Any, made: Any) -> Node:
        node = self.graph.call_function(target, args, kwargs)
        node.meta = {**self.whole.meta, "val": made}
        self.alive.append(made)
        return node


def _formula(length: Any) -> str:
    return str(length) if isinstance(length, torch.SymInt) else ""
