"""Express a class's numbers in terms of its constructor's arguments: ``nnx.Linear(dim, 4 * dim)``, ``self.heads``.

Observing the original's construction (`port.translation.frontend.construction`) shows which argument a number comes
from. A number without a known origin stays a literal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from port.translation.frontend.construction import Construction
from port.translation.frontend.construction.arguments import is_configuration
from port.translation.ir import syntax
from port.translation.ir.expr import NoSource, code, dotted, literal
from port.translation.ir.module_tree import ModuleTree, attribute_held, identifier
from port.translation.ir.number import is_same
from port.translation.ir.origin import (
    AttributeOf,
    ConstructorArgument,
    LengthOf,
    LiteralAt,
    NamedLength,
    Origin,
    ShapeRead,
)
from port.translation.ir.origin_expression import expression_of, leaves_of, read_length, value_of, with_leaves
from port.translation.ir.origin_numbers import origin_of, plain
from port.translation.structure.ctor_args import OPTIONS
from port.translation.structure.handed_arguments import HandedArguments
from port.translation.structure.init_inference.table_formulas import worked_out_table
from port.translation.structure.name_hints import is_reserved
from port.translation.structure.number_forms import of_literals, without_double_minus
from port.translation.structure.written_body import Body

N = TypeVar("N", bound=syntax.Node)
OwnArgument = tuple[type, str]
"""A class of the original and an argument of its constructor; or a configuration's class and a field."""
ALL = "*"
"""In place of an argument's name: all arguments."""


@dataclass(frozen=True)
class Configuration:
    """Placeholder for a configuration passed to a constructor.

    Attributes:
        original: its class.
        held: the configuration.
    """

    original: type
    held: Any = field(default=None, compare=False, repr=False)


def configuration_of(value: syntax.Expr | None) -> Configuration | None:
    """The configuration for which an expression is a placeholder; None if it is none."""
    return value.value if isinstance(value, syntax.Const) and isinstance(value.value, Configuration) else None


def constructs_with_configuration(tree: syntax.Node) -> str | None:
    """The name of a class that a tree constructs with a configuration that has no source form; None without one."""
    for call in syntax.walk(tree):
        match call:
            case syntax.Call(syntax.Name(name)) if any(configuration_of(each.value) for each in call.keywords):
                return name
    return None


class OwnArguments:
    """Expresses numbers in terms of the arguments of the constructors around them.

    Args:
        construction: how the original is constructed; None if unknown.
        tree: the module tree.
        fixed: arguments whose values are written as literals.
    """

    def __init__(
        self, construction: Construction | None, tree: ModuleTree, fixed: frozenset[OwnArgument] = frozenset()
    ) -> None:
        self._known, self._tree, self._fixed = construction, tree, fixed
        self._handed = None if construction is None else HandedArguments(construction)

    def covers(self, path: str) -> bool:
        """Whether the numbers of a module's class are expressed in terms of arguments."""
        known = self._known is not None and path in self._known.constructors
        return known and (type(self._tree.modules[path]), ALL) not in self._fixed

    def passed(self, path: str) -> dict[str, syntax.Expr]:
        """The constructor arguments of the module at a path, by parameter name, as the enclosing code writes them.

        Arguments without a source form are omitted.
        """
        if self._known is None or not self.covers(path):
            return {}
        found: dict[str, syntax.Expr] = {}
        for name, value in self._known.arguments[path].items():
            if is_configuration(value):
                if self._is_passed(path, value):
                    found[name] = syntax.Const(Configuration(type(value), value), origin=self._known.objects(value))
                continue
            try:
                found[name] = literal(value)
            except NoSource:
                continue
        return found

    def in_constructor(self, path: str, tree: N) -> N:
        """Express the numbers of a tree in the constructor at a path in terms of its arguments."""
        if not self.covers(path):
            return tree

        def said(node: syntax.Node) -> syntax.Node:
            if isinstance(node, syntax.Const) and node.origin is not None:
                return self._in_constructor(path, node.origin) or node
            return self._as_long(path, node) if isinstance(node, syntax.Call) else node

        return syntax.transformed(tree, said)

    def in_body(self, path: str, body: Body, taken: Mapping[str, Any]) -> tuple[Body, dict[str, syntax.Expr]]:
        """Replace a body's numbers by attributes, and return the attributes that the constructor has to set for it.

        What the original holds as an attribute is an attribute here, too, set from the arguments or else to the number.

        Args:
            path: the module's path.
            body: the body of its call.
            taken: the names of its attributes.
        """
        made: dict[str, syntax.Expr] = {}

        def said(node: syntax.Node) -> syntax.Node:
            if isinstance(node, syntax.UnaryOp):
                return without_double_minus(node)
            if not isinstance(node, syntax.Const) or node.origin is None:
                return node
            literals = [each for each in leaves_of(node.origin) if isinstance(each, LiteralAt)]
            # A number without a place is a rule's own: a length that it used.
            if any(each.location is None for each in literals):
                return node
            if len(literals) == len(list(leaves_of(node.origin))):
                return of_literals(node)
            new: dict[str, syntax.Expr] = {}

            def leaf(origin: Origin) -> syntax.Expr | None:
                if isinstance(origin, ShapeRead | NamedLength):
                    return read_length(origin)
                name, value = self._held(path, origin) or self._as_number(path, origin) or ("", None)
                if value is None or name in taken or is_reserved(name) or made.get(name, value) != value:
                    return None
                new[name] = value
                return syntax.Attribute(syntax.Name("self"), name)

            expression = expression_of(node.origin, leaf)
            if expression is None or not self._is_worth(path, node):
                return node
            made.update(new)
            return expression

        statements = tuple(syntax.transformed(statement, said) for statement in body.statements)
        returns = None if body.returns is None else syntax.transformed(body.returns, said)
        return replace(body, statements=statements, returns=returns), made

    def sizes(self, name: str, tensor: Any) -> tuple[int, ...]:
        """The lengths of a parameter or buffer, with their origins where known."""
        known = None if self._known is None else self._known.sizes.get(name)
        return tuple(tensor.shape) if known is None or known != tuple(tensor.shape) else known

    def table(self, name: str) -> syntax.Expr | None:
        """The formula of a buffer in terms of numbers with origins; None if unknown."""
        known = None if self._known is None else self._known.tables.get(name)
        if known is None or not known[0].is_open or known[1].is_meta:
            return None
        return worked_out_table(known[0], known[1].detach().numpy())

    def layer(self, path: str) -> tuple[Any, Mapping[str, Any]]:
        """The layer at a path, constructed again, and the arguments of its constructor; (None, {}) if unknown."""
        if self._known is None or path not in self._known.modules:
            return None, {}
        return self._known.modules[path], self._known.layers.get(path, {})

    def _in_constructor(self, path: str, origin: Origin) -> syntax.Expr | None:
        """Write an origin in terms of a constructor's arguments; None where it does not depend on them."""
        origin = with_leaves(origin, lambda each: self._kept(path, each) or each)
        if not any(isinstance(each, ConstructorArgument) for each in leaves_of(origin)):
            return None

        free: list[str] = []

        def leaf(each: Origin) -> syntax.Expr | None:
            assert self._handed is not None
            argument = self._handed.as_given(path, each) if isinstance(each, ConstructorArgument) else None
            if argument is None:
                return None
            owner, value = self._argument(path, argument)
            name = _first_name(argument)
            assert self._known is not None
            configuration = self._known.arguments[path][name]
            if is_configuration(configuration) and not self._is_passed(path, configuration):
                return literal(value)
            if name in OPTIONS or is_reserved(name):
                return None
            if owner in self._fixed:
                return literal(value)
            free.append(argument)
            return code(argument)

        made = expression_of(origin, leaf)
        return made if free else None

    def _is_passed(self, path: str, configuration: Any) -> bool:
        """Whether the code around the module at a path has a configuration that it can pass to the constructor."""
        return not path or (self._known is not None and self._known.objects(configuration) is not None)

    def _kept(self, path: str, origin: Origin) -> Origin | None:
        """The origin of an attribute set by a module's constructor: ``self.rate = config.rate``."""
        assert self._known is not None
        if not isinstance(origin, AttributeOf) or not f"{origin.path}.".startswith(f"{path}." if path else ""):
            return None
        of = origin.path
        if of not in self._known.modules:
            return None
        now = attribute_held(self._tree.modules[of], origin.attribute)
        held = attribute_held(self._known.modules[of], origin.attribute)
        # torch's own layers may convert a number to a plain one: their arguments were recorded.
        passed = self._known.layers.get(of, {}).get(origin.attribute)
        return next((origin_of(each) for each in (held, passed) if origin_of(each) and is_same(plain(each), now)), None)

    def _argument(self, path: str, text: str) -> tuple[OwnArgument, Any]:
        """The argument that a text such as ``config.n_head`` or ``depths[2]`` reads, and its value."""
        assert self._known is not None
        first = _first_name(text)
        passed = self._known.arguments[path][first]
        value = plain(eval(text, {"__builtins__": {}}, {first: passed}))
        owner, name, rest = type(self._known.modules[path]), first, text.removeprefix(first)
        while is_configuration(passed) and rest.startswith("."):
            owner, name = type(passed), _first_name(rest[1:])
            passed, rest = vars(passed).get(name), rest[1:].removeprefix(name)
        return (owner, name), value

    def _held(self, path: str, origin: Origin) -> tuple[str, syntax.Expr] | None:
        """The attribute for a value that a module holds, and the expression that the constructor sets it to."""
        known = self._known
        if known is None or not self.covers(path):
            return None
        match origin:
            # If an inner module's call is inlined, its attribute is kept by the module around it.
            case AttributeOf(of, attribute) if f"{of}.".startswith(f"{path}." if path else "") and of in known.modules:
                value = attribute_held(known.modules[of], attribute)
                if not is_same(plain(value), attribute_held(self._tree.modules[of], attribute)):
                    return None
                name = attribute.rpartition(".")[2]
            case LengthOf(tensor, axis) if tensor.startswith("self."):
                inside = tensor.removeprefix("self.")
                sizes = known.sizes.get(f"{path}.{inside}" if path else inside, ())
                value = sizes[axis] if -len(sizes) <= axis < len(sizes) else None
                name = ""
            case _:
                return None
        known_origin = origin_of(value)
        made = None if known_origin is None else self._in_constructor(path, known_origin)
        if made is None:
            return None
        if not name.isidentifier():
            name = made.id if isinstance(made, syntax.Name) else ""
        return (identifier(name), made) if name else None

    def _as_number(self, path: str, origin: Origin) -> tuple[str, syntax.Expr] | None:
        """The attribute for a number that a module holds, set to the literal."""
        if not isinstance(origin, AttributeOf) or origin.path != path or not origin.attribute.isidentifier():
            return None
        value = attribute_held(self._tree.modules[path], origin.attribute)
        is_number = isinstance(value, int | float) and origin.attribute != "training"
        return (identifier(origin.attribute), literal(plain(value))) if is_number else None

    def _is_worth(self, path: str, node: syntax.Const) -> bool:
        """Whether the attributes in a number's origin still have its value: they may have changed during the run."""
        assert node.origin is not None

        def now(origin: Origin) -> Origin:
            match origin:
                case AttributeOf(of, attribute) if isinstance(
                    value := attribute_held(self._tree.modules.get(of), attribute), int | float
                ):
                    return LiteralAt(plain(value))
                case NamedLength(_, value):
                    return LiteralAt(value)
            return origin

        leaves = list(leaves_of(node.origin))
        if not all(isinstance(each, AttributeOf | NamedLength | LiteralAt) for each in leaves):
            return True
        return is_same(value_of(with_leaves(node.origin, now)), node.value)

    def _as_long(self, path: str, node: syntax.Call) -> syntax.Node:
        """Write a list whose length is an argument, ``nnx.List([Block(dim) for _ in range(depth)])``.

        The first item may differ from the others: ``nnx.List([Block(n, dim), *[Block(dim, dim) for _ in …]])``.
        """
        assert self._known is not None
        match node:
            case syntax.Call(syntax.Attribute(attr="List"), (syntax.List((syntax.Call() as first, *others)),), ()):
                is_list = True
            case syntax.Call(syntax.Attribute(attr="Sequential"), (syntax.Call() as first, *others), ()):
                is_list = False
            case _:
                return node
        counts = [
            self._in_constructor(path, origin)
            for count in self._known.repeats.get(self._known.constructors[path], ())
            if count == 1 + len(others) and (origin := origin_of(count)) is not None
        ]
        if len(set(counts)) != 1 or counts[0] is None:
            return node
        if all(item == first for item in others):
            many = _many(first, counts[0])
            return syntax.Call(node.func, (many,) if is_list else (syntax.Starred(many),))
        if any(item != others[0] for item in others) or not _is_first_of(first, others[0], len(others)):
            return node
        items = first, syntax.Starred(_many(others[0], syntax.BinOp(counts[0], "-", syntax.Const(1))))
        return syntax.Call(node.func, (syntax.List(items),) if is_list else items)


def _many(item: syntax.Expr, count: syntax.Expr) -> syntax.ListComp:
    """Write ``[item for _ in range(count)]``."""
    loop = syntax.Comprehension(syntax.Name("_"), syntax.Call(syntax.Name("range"), (count,)))
    return syntax.ListComp(item, (loop,))


def _is_first_of(first: syntax.Expr, other: syntax.Expr, count: int) -> bool:
    """Whether a list has a first item of its own and then equal items of the same original class.

    ``Block`` and ``Block2`` are two written classes of one original class. Two items show no pattern of repetition.
    """
    if not (isinstance(first, syntax.Call) and isinstance(other, syntax.Call)):
        return False
    one, two = dotted(first.func), dotted(other.func)
    return one.rstrip("0123456789") == two.rstrip("0123456789") and (one != two or count > 1)


def _first_name(argument: str) -> str:
    return re.split(r"[.\[]", argument, maxsplit=1)[0]
