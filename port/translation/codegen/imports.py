"""How a person imports what is used: ``jax.numpy.mean`` as ``jnp.mean``, ``port.nn.BatchNorm`` by its name."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable
from functools import cache
from typing import Any

from port.pairs.registry import imports_of_registered

_ALIASES = {
    "jnp": "import jax.numpy as jnp",
    "np": "import numpy as np",
    "nnx": "from flax import nnx",
    "lax": "from jax import lax",
    "jax": "import jax",
    "F": "from port.nn import functional as F",
    "partial": "from functools import partial",
    "math": "import math",
}


_ROOTS = ("jax", "flax", "port", *_ALIASES)

# What a model is computed in stands as float64 where it was captured so: in JAX, the default float.
_DEFAULTS = {
    "jnp.float64": "float",
    "jax.numpy.float64": "float",
    "jnp.complex128": "complex",
    "jax.numpy.complex128": "complex",
}


class Imports:
    """The lines that a source needs; names in what it reads are replaced by those that the lines give.

    Args:
        default_float: whether float64 stands for the default float.
        taken: names of the source's own classes; a module of port's with such a name is called ``port.nn.Name``.
    """

    def __init__(self, *, default_float: bool = False, taken: Iterable[str] = ()) -> None:
        self.default_float, self.taken = default_float, frozenset(taken)
        self.registered = imports_of_registered()
        self._lines: set[str] = {_ALIASES["nnx"]}
        self._own: set[str] = set()

    def line(self, text: str) -> None:
        """Take a line in."""
        self._lines.add(text)

    def of_registered(self, name: str) -> bool:
        """Take in the line of what a registered pair writes, if this is a name of that; says whether it is."""
        parts = name.split(".")
        for length in range(len(parts), 0, -1):
            if line := self.registered.get(".".join(parts[:length])):
                self.line(line)
                return True
        return False

    def own(self, name: str) -> None:
        """Import a name from port.nn."""
        self._own.add(name)

    def read(self, tree: Any) -> Any:
        """A copy with dotted names as they are imported."""
        return _Reading(self).visit(copy.deepcopy(tree))

    def needed_names(self, text: str) -> set[str]:
        """The names that stand in a source."""
        return {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}

    def text(self) -> str:
        """The lines."""
        own = [f"from port.nn import {', '.join(sorted(self._own))}"] if self._own else []
        return "\n".join([*sorted(self._lines), *own])


class _Reading(ast.NodeTransformer):
    def __init__(self, imports: Imports) -> None:
        self.imports = imports

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        name = _dotted(node)
        if name is not None and self.imports.of_registered(name):
            return node
        if name is None or name.partition(".")[0] not in _ROOTS:
            self.generic_visit(node)
            return node
        return self._named(name, node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in _ALIASES:
            self.imports.line(_ALIASES[node.id])
        self.imports.of_registered(node.id)
        return node

    def _named(self, name: str, node: ast.Attribute) -> ast.AST:
        first = name.partition(".")[0]
        if name in ("jnp.int64", "jax.numpy.int64"):
            return ast.Name("int")  # JAX's default whole number, which is what there is of it without x64
        if self.imports.default_float and name in _DEFAULTS:
            return ast.Name(_DEFAULTS[name])
        if name.startswith("jax.numpy."):
            return self._from("jnp", name.removeprefix("jax.numpy."))
        if name.startswith("flax.nnx."):
            return self._from("nnx", name.removeprefix("flax.nnx."))
        if name.startswith("jax.nn.") and _is_nnx(name.removeprefix("jax.nn.")):
            return self._from("nnx", name.removeprefix("jax.nn."))
        if name.startswith("jax.lax."):
            return self._from("lax", name.removeprefix("jax.lax."))
        if name.startswith("port.nn.functional."):
            return self._from("F", name.removeprefix("port.nn.functional."))
        if name.startswith("port.nn.") and name.rpartition(".")[2] in self.imports.taken:
            self.imports.line("import port.nn")
            return node
        if name.startswith("port.nn.") and name.count(".") == 2:
            self.imports.own(name.rpartition(".")[2])
            return ast.Name(name.rpartition(".")[2])
        if first in _ALIASES:
            self.imports.line(_ALIASES[first])
        return node

    def _from(self, alias: str, rest: str) -> ast.AST:
        self.imports.line(_ALIASES[alias])
        return ast.parse(f"{alias}.{rest}", mode="eval").body


def _dotted(node: ast.expr) -> str | None:
    match node:
        case ast.Attribute(value=value, attr=attribute):
            before = _dotted(value)
            return None if before is None else f"{before}.{attribute}"
        case ast.Name(id=name):
            return name
    return None


@cache
def _is_nnx(name: str) -> bool:
    import jax
    from flax import nnx

    return hasattr(nnx, name) and getattr(nnx, name) is getattr(jax.nn, name, None)
