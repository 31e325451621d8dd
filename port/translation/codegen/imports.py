"""Collect imports and shorten dotted names: ``jax.numpy.mean`` to ``jnp.mean``, ``port.nn.BatchNorm`` to its name."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TypeVar, cast

from port.pairs.registry import imports_of_registered
from port.translation.ir import syntax
from port.translation.ir.expr import code, dotted

N = TypeVar("N", bound=syntax.Node)

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

# A model captured in float64 has float64 throughout; its source uses JAX's default float instead.
_DEFAULTS = {
    "jnp.float64": "float",
    "jax.numpy.float64": "float",
    "jnp.complex128": "complex",
    "jax.numpy.complex128": "complex",
}


_SHORT = {"jax.numpy.": "jnp", "flax.nnx.": "nnx", "jax.lax.": "lax", "port.nn.functional.": "F"}


class Imports:
    """The imports of a source; `read` collects them and shortens names accordingly.

    Args:
        default_float: whether to emit float64 as the default float.
        taken: names of the source's own classes; port's classes of the same name stay qualified, ``port.nn.Name``.
    """

    def __init__(self, *, default_float: bool = False, taken: Iterable[str] = ()) -> None:
        self.default_float, self.taken = default_float, frozenset(taken)
        self.registered = imports_of_registered()
        self._lines: set[str] = {_ALIASES["nnx"]}
        self._own: set[str] = set()

    def line(self, text: str) -> None:
        """Add an import line."""
        self._lines.add(text)

    def of_registered(self, name: str) -> bool:
        """Add the import of a registered pair's package, if the name belongs to one; return whether it does."""
        parts = name.split(".")
        for length in range(len(parts), 0, -1):
            if line := self.registered.get(".".join(parts[:length])):
                self.line(line)
                return True
        return False

    def own(self, name: str) -> None:
        """Import a name from port.nn."""
        self._own.add(name)

    def read(self, tree: N) -> N:
        """Shorten the dotted names in a tree, and collect their imports."""
        made: syntax.Node = tree
        match tree:
            case syntax.Name(name):
                if name in _ALIASES:
                    self.line(_ALIASES[name])
                self.of_registered(name)
            case syntax.Attribute() if self.of_registered(dotted(tree)):
                pass
            case syntax.Attribute() if dotted(tree).partition(".")[0] in _ROOTS:
                made = self._named(dotted(tree), tree)
            case _:
                made = syntax.with_parts(tree, self.read)
        return cast(N, made)

    def _named(self, name: str, node: syntax.Expr) -> syntax.Expr:
        first = name.partition(".")[0]
        if name in ("jnp.int64", "jax.numpy.int64"):
            return syntax.Name("int")  # JAX's default integer; without x64 there is no int64
        if self.default_float and name in _DEFAULTS:
            return syntax.Name(_DEFAULTS[name])
        for whole, alias in _SHORT.items():
            if name.startswith(whole):
                return self._from(alias, name.removeprefix(whole))
        if name.startswith("jax.nn.") and _is_nnx(name.removeprefix("jax.nn.")):
            return self._from("nnx", name.removeprefix("jax.nn."))
        if name.startswith("port.nn.") and name.rpartition(".")[2] in self.taken:
            self.line("import port.nn")
            return node
        if name.startswith("port.nn.") and name.count(".") == 2:
            self.own(name.rpartition(".")[2])
            return syntax.Name(name.rpartition(".")[2])
        if first in _ALIASES:
            self.line(_ALIASES[first])
        return node

    def _from(self, alias: str, rest: str) -> syntax.Expr:
        self.line(_ALIASES[alias])
        return code(f"{alias}.{rest}")

    def text(self) -> str:
        """Return the import lines as text."""
        own = [f"from port.nn import {', '.join(sorted(self._own))}"] if self._own else []
        return "\n".join([*sorted(self._lines), *own])


@cache
def _is_nnx(name: str) -> bool:
    import jax
    from flax import nnx

    return hasattr(nnx, name) and getattr(nnx, name) is getattr(jax.nn, name, None)
