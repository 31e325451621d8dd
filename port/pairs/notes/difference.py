"""What a note is: one difference between the two frameworks that no error message tells of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Note:
    """One thing that both frameworks do, each in its own way.

    Attributes:
        id: its family's letter and its number there, "W12"; docstrings, comments and messages cite it.
        title: what it is about, in a few words.
        torch: what PyTorch does.
        jax: what JAX, Flax or Optax does.
        remedy: what makes the two agree, or what to do where nothing does.
        tests: the tests that show it, as pytest names them without their parameters.
        untested: why there is no test, where there is none.
        causes: the kinds of `port.parity.Cause` that are this difference: `port check` tries them where two
            models part.
        outside: why `port check` tries nothing for it, where it is a difference of no model.
    """

    id: str
    title: str
    torch: str
    jax: str
    remedy: str
    tests: tuple[str, ...] = ()
    untested: str = ""
    causes: tuple[str, ...] = ()
    outside: str = ""
