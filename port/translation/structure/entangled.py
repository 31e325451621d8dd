"""Root arguments of which only some combinations were translated; the written call rejects the others."""

from __future__ import annotations

from dataclasses import dataclass

from port.translation.ir import syntax


@dataclass(frozen=True)
class Entangled:
    """Arguments of which only some combinations were translated.

    Attributes:
        names: the names of the parameters.
        tested: the expressions that the guard tests: an argument, ``p is None``, or ``p.ndim``.
        seen: their values in each translated combination.
    """

    names: tuple[str, ...]
    tested: tuple[syntax.Expr, ...]
    seen: tuple[tuple[syntax.Expr, ...], ...]

    @property
    def guard(self) -> syntax.Stmt:
        """A statement that raises for other combinations."""
        is_one = len(self.tested) == 1
        tested = self.tested[0] if is_one else syntax.Tuple(self.tested)
        seen = syntax.Tuple(tuple(each[0] if is_one else syntax.Tuple(each) for each in self.seen))
        said = f"no example call has {' and '.join(self.names)} {'' if is_one else 'together '}like this"
        error = syntax.Call(syntax.Name("NotImplementedError"), (syntax.Const(said),))
        return syntax.If(syntax.Compare(tested, ("not in",), (seen,)), (syntax.Raise(error),))

    def __str__(self) -> str:
        if len(self.names) == 1:
            return f"{self.names[0]} with a value other than {', '.join(syntax.source(one) for (one,) in self.seen)}"
        return f"{' and '.join(self.names)} in a combination that no example call has"
