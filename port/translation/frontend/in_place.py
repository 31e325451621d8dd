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
_OTHERWISE = frozenset(("alias", "detach", "dropout", "lift_fresh", "lift_fresh_copy"))
"""Operators that torch replaces by others, or leaves out, for reasons that the operator alone does not say."""


def written_anew(program: Any) -> bool:
    """Make a program functional; False where that is not as simple, and the program is then as it was.

    A write in place becomes an operator of the same name that makes its result anew, which whatever follows reads; that
    is all where what is written has no other name, as a view of it is. Composite operators become their parts.

    Args:
        program: a ``torch.export.ExportedProgram``, which is changed.
    """
    graph = program.graph_module.graph
    if not knows_which_stay() or not all(map(_is_simple, graph.nodes)) or not _Names(graph).are_written_alone():
        return False
    _write_anew(graph)
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
        return True  # one of Python's on lengths
    if target.namespace != "aten" or _name(node) in _OTHERWISE:
        return False
    if target._schema.is_mutable:
        return isinstance(node.args[0], Node) and _is_the_same_anew(node)
    if is_composite(target):
        return stays(target) or _name(node) in DECOMPOSED
    return not is_taken_apart(target)


def _name(node: Node) -> str:
    """What an operator of ATen is called; empty for others."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return ""
    return str(target._schema.name).partition("::")[2]


def _is_the_same_anew(node: Node) -> bool:
    """Whether what is made anew has the precision and the strides of what is written to."""
    plain = _anew(node.target)
    if plain is None or any("val" not in known.meta for known in node.all_input_nodes):
        return False
    args, kwargs = pytree.tree_map_only(Node, lambda known: known.meta["val"], (node.args, node.kwargs))
    with _unguarded(args[0]):
        made = plain(*args, **kwargs)
    return _described(made) == _described(args[0])


@contextmanager
def _unguarded(tensor: Any) -> Iterator[None]:
    """Within it, operators are asked for shapes again: of the lengths they fix nothing that the run has not fixed."""
    environment = tensor.fake_mode.shape_env if isinstance(tensor, FakeTensor) else None
    with torch.no_grad(), nullcontext() if environment is None else environment.suppress_guards():
        yield


def _described(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.dtype, str(tensor.size()), str(tensor.stride())


def _takes(operator: Any) -> list[tuple[str, str]]:
    return [(argument.name, str(argument.type)) for argument in operator._schema.arguments]


def _anew(target: Any) -> Any:
    """What computes the same as an operator that writes to its first operand, and writes nothing."""
    schema = target._schema
    written = [argument.name for argument in schema.arguments if argument.alias_info and argument.alias_info.is_write]
    if written != [schema.arguments[0].name] or len(schema.returns) != 1 or is_composite(target):
        return None
    packet = getattr(torch.ops.aten, schema.name.partition("::")[2].removesuffix("_"), None)
    found = getattr(packet, target._overloadname, None)
    # torch.jit has functions of numbers beside the operators: ldexp(float, int).
    if found is None or _takes(found) != _takes(target) or found._schema.is_mutable:
        return None
    if is_composite(found) and not stays(found):
        return None
    return None if is_taken_apart(found) else found


class _Names:
    """Which values of a graph may lie in the same memory: a view and what it is of."""

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

    def are_written_alone(self) -> bool:
        """Whether each write is to a value of the run's own that no other name was given before."""
        return all(map(self._is_written_alone, filter(_writes, self.nodes)))

    def _is_written_alone(self, node: Node) -> bool:
        # What is written again and again has the names of all writes.
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


def _write_anew(graph: Graph) -> None:
    position = {node: number for number, node in enumerate(graph.nodes)}
    for node in list(graph.nodes):
        if _writes(node):
            written, here = node.args[0], position[node]
            assert isinstance(written, Node)
            node.target = _anew(node.target)
            written.replace_all_uses_with(node, lambda user, here=here: position[user] > here)  # type: ignore[misc]


class _Parts:
    """What composite operators are made of, in the place of them."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def take_apart(self, node: Node) -> None:
        """Put the parts of a composite operator in its place."""
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
    """Within it, every operator is written into a graph as well."""

    def __init__(self, graph: Graph, whole: Node, nodes: dict[int, Node], lengths: dict[str, Node]) -> None:
        super().__init__()
        self.graph, self.whole, self.nodes, self.lengths = graph, whole, nodes, lengths
        self.alive: list[Any] = []  # an id is a thing's own only while it lives

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        made = func(*args, **kwargs)
        if not isinstance(made, torch.Tensor | tuple | list):
            return made  # it asks for a device, or a length
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
