"""Arguments of the root of which only some combinations were translated: the written call refuses the others."""

from __future__ import annotations

from dataclasses import dataclass

from port.translation.ir import syntax


@dataclass(frozen=True)
class Entangled:
    """Arguments of which only some combinations were translated.

    Attributes:
        names: of the parameters.
        told: what the guard looks at: an argument, ``p is None``, or ``p.ndim``.
        seen: what these are in each combination that is right.
    """

    names: tuple[str, ...]
    told: tuple[syntax.Expr, ...]
    seen: tuple[tuple[syntax.Expr, ...], ...]

    @property
    def guard(self) -> syntax.Stmt:
        """Raises at another combination."""
        is_one = len(self.told) == 1
        told = self.told[0] if is_one else syntax.Tuple(self.told)
        seen = syntax.Tuple(tuple(each[0] if is_one else syntax.Tuple(each) for each in self.seen))
        said = f"no example call has {' and '.join(self.names)} {'' if is_one else 'together '}like this"
        error = syntax.Call(syntax.Name("NotImplementedError"), (syntax.Const(said),))
        return syntax.If(syntax.Compare(told, ("not in",), (seen,)), (syntax.Raise(error),))

    def __str__(self) -> str:
        if len(self.names) == 1:
            return f"{self.names[0]}, where it is another than {', '.join(syntax.source(one) for (one,) in self.seen)}"
        return f"{' and '.join(self.names)}, together otherwise than in the example calls"
