"""JAX expressions for the torch functions with which constructors compute tables."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from port.translation.structure.kept_constructors.cannot_keep import CannotKeep

_EACH = ("exp", "sin", "cos", "tan", "log", "log2", "sqrt", "tanh", "abs", "outer", "tril", "triu", "eye", "linspace")
_AS_IT_IS = ("float", "double", "to", "type", "clone", "contiguous", "detach", "type_as")
"""Methods that do not change the numbers; precision follows from the table's own dtype."""


def function_written(name: str, args: list[ast.expr], keywords: Mapping[str | None, ast.expr]) -> ast.expr:
    """The JAX expression for a torch function."""
    jnp = ast.Name("jnp", ast.Load())
    if keywords.keys() - ({"dim"} if name in ("cat", "stack") else set()):
        raise CannotKeep(f"a table is computed by torch.{name} with {', '.join(map(str, keywords))}")
    match name, args:
        case (("zeros" | "ones"), [ast.Tuple() | ast.List() as sizes]):
            return called(attribute(jnp, name), sizes)
        case (("zeros" | "ones"), [_, *_]):
            return called(attribute(jnp, name), args[0] if len(args) == 1 else ast.Tuple(args, ast.Load()))
        case "arange", [_, *_]:
            return called(attribute(jnp, name), *args)
        case "tensor", [number] if not isinstance(number, ast.List | ast.Tuple):
            return called(attribute(jnp, "array"), number)
        case "pow", [base, exponent]:
            return ast.BinOp(base, ast.Pow(), exponent)
        case (("cat" | "stack"), [tensors, *_]) if len(args) + len(keywords) <= 2:
            axis = keywords.get("dim", args[1] if len(args) > 1 else ast.Constant(0))
            made = called(attribute(jnp, "concatenate" if name == "cat" else name), tensors)
            made.keywords = [ast.keyword("axis", axis)]
            return made
        case _ if name in _EACH:
            return called(attribute(jnp, name), *args)
    raise CannotKeep(f"a table is computed by torch.{name}")


def method_written(value: ast.expr, name: str, args: list[ast.expr]) -> ast.expr:
    """The JAX expression for a tensor method."""
    jnp = ast.Name("jnp", ast.Load())
    match name, args:
        case _, _ if name in _AS_IT_IS:
            return value
        case "unsqueeze", [dim]:
            return _unsqueezed(value, dim)
        case (("transpose" | "swapaxes"), [_, _]):
            return called(attribute(jnp, "swapaxes"), value, *args)
        case "t", []:
            return attribute(value, "T")
        case (("view" | "reshape"), [_, *_]):
            return called(attribute(value, "reshape"), *args)
        case "permute", [_, *_]:
            return called(attribute(value, "transpose"), *args)
        case "repeat", [_, *_]:
            return called(attribute(jnp, "tile"), value, ast.Tuple(args, ast.Load()))
        case "pow", [exponent]:
            return ast.BinOp(value, ast.Pow(), exponent)
        case "size", [dim]:
            return ast.Subscript(attribute(value, "shape"), dim, ast.Load())
        case _, [] if name in _EACH:
            return called(attribute(jnp, name), value)
    raise CannotKeep(f"a table is computed by .{name}()")


def _unsqueezed(value: ast.expr, dim: ast.expr) -> ast.expr:
    """Write ``x[:, None]`` where the dimension is a simple literal."""
    match dim:
        case ast.Constant(value=0):
            index: list[ast.expr] = [ast.Constant(None)]
        case ast.Constant(value=1):
            index = [ast.Slice(), ast.Constant(None)]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1)):
            index = [ast.Constant(...), ast.Constant(None)]
        case _:
            return called(attribute(ast.Name("jnp", ast.Load()), "expand_dims"), value, dim)
    return ast.Subscript(value, index[0] if len(index) == 1 else ast.Tuple(index, ast.Load()), ast.Load())


def attribute(value: ast.expr, name: str) -> ast.Attribute:
    """Read an attribute."""
    return ast.Attribute(value, name, ast.Load())


def called(function: ast.expr, *args: ast.expr) -> ast.Call:
    """Call a function with positional arguments."""
    return ast.Call(function, [*args], [])
