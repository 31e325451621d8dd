"""How an operator's expression comes by the user's own functions: the import lines of its pair."""

from __future__ import annotations

import ast
from collections.abc import Iterable

TAKEN = frozenset(
    {
        *("jax", "jnp", "np", "lax", "nnx", "F", "partial", "math", "port", "torch"),
        *("Any", "Path", "self", "load", "load_file"),
    }
)
"""What has a meaning of its own in expressions, or in the source that they are written into."""


def names_of_imports(lines: Iterable[str]) -> dict[str, str]:
    """The name that source reads → the line that imports it: ``my_pkg.kernels`` of ``import my_pkg.kernels``.

    Raises:
        SyntaxError: a line that is no import.
    """
    found: dict[str, str] = {}
    for line in lines:
        statements = ast.parse(line).body
        if len(statements) != 1 or not isinstance(statements[0], ast.Import | ast.ImportFrom):
            raise SyntaxError(f"expected one import, as in 'import my_kernels'; got {line!r}")
        found |= {name.asname or name.name: line for name in statements[0].names}
    return found
