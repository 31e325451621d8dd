"""Notes: differences between the two frameworks that raise no error."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Note:
    """One silent difference between the two frameworks.

    Attributes:
        id: the family's letter and a number, "W12"; docstrings, comments and messages cite it.
        title: the subject, in a few words.
        torch: what PyTorch does.
        jax: what JAX, Flax or Optax does.
        remedy: how to make the two agree, or what to do if they cannot.
        tests: the tests that show it, as pytest ids without parameters.
        untested: the reason if there is no test.
        causes: the kinds of `port.parity.Cause` for this difference: `port check` tries them where two models diverge.
        outside: the reason if `port check` tries none, for differences outside of models.
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
