"""Import lines of operator pairs, for expressions that call the user's functions."""

from __future__ import annotations

import ast
from collections.abc import Iterable

TAKEN = frozenset(
    {
        *("jax", "jnp", "np", "lax", "nnx", "F", "partial", "math", "port", "torch"),
        *("Any", "Path", "self", "load", "load_weights"),
    }
)
"""Names that already have a meaning in expressions or in generated source."""


def names_of_imports(lines: Iterable[str]) -> dict[str, str]:
    """Map each imported name to its line: ``my_pkg.kernels`` → ``import my_pkg.kernels``.

    Raises:
        SyntaxError: a line that is not a single import.
    """
    found: dict[str, str] = {}
    for line in lines:
        statements = ast.parse(line).body
        if len(statements) != 1 or not isinstance(statements[0], ast.Import | ast.ImportFrom):
            raise SyntaxError(f"expected one import, as in 'import my_kernels'; got {line!r}")
        found |= {name.asname or name.name: line for name in statements[0].names}
    return found
