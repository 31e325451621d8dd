"""Numbers of a model whose constructors are translated from source."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from port.pairs.twin_attributes import twin_attribute
from port.translation.frontend.construction.construction_calls import ConstructionCalls, is_own
from port.translation.ir import syntax
from port.translation.ir.expr import code
from port.translation.ir.layout import Layout
from port.translation.ir.module_tree import ModuleTree, attribute_held, identifier
from port.translation.ir.number import is_same
from port.translation.ir.origin import AttributeOf, LengthOf, LiteralAt, NamedLength, Origin, ShapeRead
from port.translation.ir.origin_expression import expression_of, leaves_of, read_length
from port.translation.ir.origin_numbers import plain
from port.translation.structure.constructors import is_function
from port.translation.structure.number_forms import of_literals, without_double_minus
from port.translation.structure.own_arguments import OwnArguments
from port.translation.structure.written_body import Body

_ITEM = re.compile(r"\w+(\[[^\[\]]+\])*")
"""An attribute, or an item of it: ``window[0]``."""
_SELF = syntax.Name("self")
N = TypeVar("N", bound=syntax.Node)


class CalledArguments(OwnArguments):
    """Writes numbers as the attributes that the original's constructors create.

    Args:
        calls: the calls of the construction.
        tree: its module tree.
        layout: (module path, name) → the layout in which the written module holds a parameter or buffer.
    """

    def __init__(self, calls: ConstructionCalls, tree: ModuleTree, layout: Callable[[str, str], Layout]) -> None:
        super().__init__(None, tree)
        self._calls, self._layout = calls, layout

    def in_body(self, path: str, body: Body, taken: Mapping[str, Any]) -> tuple[Body, dict[str, syntax.Expr]]:
        """Replace a body's numbers by attributes, which the constructor creates itself."""
        if not is_own(type(self._tree.modules[path])):
            return super().in_body(path, body, taken)

        statements = tuple(self.said_by_attributes(path, statement) for statement in body.statements)
        returns = None if body.returns is None else self.said_by_attributes(path, body.returns)
        return replace(body, statements=statements, returns=returns), {}

    def said_by_attributes(self, path: str, tree: N) -> N:
        """Replace the numbers in a module's statement or expression by attributes of it or of modules inside it."""

        def leaf(origin: Origin) -> syntax.Expr | None:
            match origin:
                case ShapeRead() | NamedLength():
                    return read_length(origin)
                case AttributeOf(of, attribute):
                    return self._attribute(path, of, attribute)
                case LengthOf(tensor, axis):
                    return self._length_held(path, tensor.removeprefix("self."), axis)
            return None

        def said(node: syntax.Node) -> syntax.Node:
            if isinstance(node, syntax.Tuple):
                return self._whole_shape(path, node)
            if isinstance(node, syntax.List):
                return self._whole_list(path, node)
            if isinstance(node, syntax.UnaryOp):
                return without_double_minus(node)
            if not isinstance(node, syntax.Const) or node.origin is None:
                return node
            leaves = list(leaves_of(node.origin))
            literals = [each for each in leaves if isinstance(each, LiteralAt)]
            if any(each.location is None for each in literals):
                return node
            if len(literals) == len(leaves):
                return of_literals(node)
            return expression_of(node.origin, leaf) or node

        return syntax.transformed(tree, said)

    def _attribute(self, path: str, of: str, attribute: str) -> syntax.Expr | None:
        """Write an attribute: ``self.dim``; ``self.embed.features`` for a layer's ``embedding_dim``."""
        tree, inside = self._tree, of.startswith(f"{path}." if path else "")
        if of not in tree.modules or not (of == path or inside):
            return None
        is_layer = tree.kind(of) == "layer"
        if is_layer and not is_function(tree.modules[of]):
            name = twin_attribute(tree.modules[of], attribute)
            now, anew = (attribute_held(modules[of], attribute) for modules in (tree.modules, self._calls.modules))
        elif not is_layer and _ITEM.fullmatch(attribute):
            name = attribute
            now, anew = (self._held_in(modules[of], attribute) for modules in (tree.modules, self._calls.modules))
        else:
            return None
        known = isinstance(now, bool | int | float | str) and is_same(plain(anew), now)
        read = self._module(path, of)
        return code(f"x.{name}", x=read) if name is not None and known and read is not None else None

    def _module(self, path: str, of: str) -> syntax.Expr | None:
        """Write an inner module: ``self.layers[0]``; None for one in a Sequential or a dict."""
        if of == path:
            return _SELF
        owner, _, name = of.rpartition(".")
        held = self._module(path, owner)
        match self._tree.kind(owner):
            case "class" if held is not None and not self._tree.is_list(owner):
                return syntax.Attribute(held, identifier(name))
            case "list" if held is not None:
                return syntax.Subscript(held, syntax.Const(int(name)))
        return None

    def _length_held(self, path: str, name: str, axis: int) -> syntax.Expr | None:
        """Write ``self.weight.shape[0]`` for a parameter or buffer of the module at a path."""
        module = self._tree.modules[path]
        tensor = module._parameters.get(name, module._buffers.get(name))
        layout = self._layout(path, name)
        if tensor is None or layout.rank != tensor.dim() or layout.folded is not None:
            return None
        return code(f"self.{name}.shape[{layout.axis(axis)}]")

    def _whole_shape(self, path: str, node: syntax.Tuple) -> syntax.Expr:
        """Write ``self.weight.shape`` for all of its lengths."""
        match node.elts:
            case (
                syntax.Subscript(syntax.Attribute(syntax.Attribute(syntax.Name("self"), name), "shape") as whole),
                *_,
            ):
                lengths = tuple(code(f"x[{axis}]", x=whole) for axis in range(self._layout(path, name).rank))
                return whole if node.elts == lengths else node
        return node

    def _whole_list(self, path: str, node: syntax.List) -> syntax.Expr:
        """Write ``self.window`` for all of its items."""
        match node.elts:
            case (syntax.Subscript(syntax.Attribute(syntax.Name("self"), name) as whole), *_):
                held = vars(self._tree.modules[path]).get(name)
                items = tuple(code(f"self.{name}[{place}]") for place in range(len(node.elts)))
                return whole if type(held) is list and len(held) == len(items) and node.elts == items else node
        return node

    @staticmethod
    def _held_in(module: Any, attribute: str) -> Any:
        """A module's attribute, or an item of a tuple, list or dict of plain values in it."""
        name, _, item = attribute.partition("[")
        held = vars(module).get(name)
        return attribute_held(module, attribute) if not item or type(held) in (tuple, list, dict) else None

    def sizes(self, name: str, tensor: Any) -> tuple[int, ...]:
        """The lengths of a parameter or buffer, with their origins where known."""
        known = self._calls.sizes.get(name)
        return tuple(tensor.shape) if known is None or known != tuple(tensor.shape) else known

    def layer(self, path: str) -> tuple[Any, Mapping[str, Any]]:
        """The layer at a path, constructed again, and the arguments of its constructor."""
        return self._calls.modules[path], self._calls.layer_arguments.get(path, {})
