"""Rematerialisation: classes whose activations are recomputed in the backward pass, by calls under ``nnx.remat``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from port.errors import UnknownChoice, UsageError, described
from port.translation.ir import syntax
from port.translation.ir.expr import code
from port.translation.structure.class_merge import FoldedClass
from port.translation.structure.program import Program

POLICIES = {
    "nothing": "nothing_saveable",
    "dots": "dots_saveable",
    "dots_with_no_batch_dims": "dots_with_no_batch_dims_saveable",
    "everything": "everything_saveable",
}
"""What is saved for the backward pass, by short names of `jax.checkpoint_policies`; without a policy, nothing."""


@dataclass(frozen=True)
class Remat:
    """Which activations are recomputed in the backward pass.

    Attributes:
        classes: names of the original's classes.
        policy: which of their activations are saved: a name of `POLICIES`; empty for none.
    """

    classes: Sequence[str] | str = ()
    policy: str = ""

    def __bool__(self) -> bool:
        return bool(self.classes)


NO_REMAT = Remat()


def remat_of(classes: Sequence[str] | str, policy: str | None) -> Remat:
    """Validate the requested classes and policy.

    Raises:
        UsageError: the policy is not a string, or there are no classes for it.
        UnknownChoice: there is no such policy.
    """
    if policy is None:
        return Remat(classes)
    if not isinstance(policy, str):
        raise UsageError(f"a remat policy is a name, one of {', '.join(POLICIES)}; got {described(policy)}")
    if policy not in POLICIES:
        raise UnknownChoice("remat policy", policy, POLICIES)
    if not classes:
        raise UsageError(f"the remat policy {policy} needs classes whose activations are recomputed: name them")
    return Remat(classes, policy)


Numbers = dict[int, str]
"""Arguments of a call that are constants rather than arrays: their positions (``self`` is 0) → annotations."""
_CONSTANTS = {"bool", "int", "float", "str"}

_INNER = "_checkpointed_call"


def checkpointed_classes(program: Program, wanted: Sequence[str] | str) -> dict[str, Numbers]:
    """Find the written classes to checkpoint.

    Args:
        program: the program with all classes.
        wanted: names of the original's classes, ``Block`` or ``package.module.Block``; all their written versions are
            checkpointed; or the name of a written class, for that version only.

    Returns:
        The classes' names → which of their arguments are numbers.

    Raises:
        UnknownChoice: no written and called class has such a name; lists those that exist.
        UsageError: a class receives numbers mixed with arrays; `nnx.remat` would turn them into arrays.
    """
    called = [made for made in program.classes if made.body is not None or made.is_sequential]
    found: dict[str, Numbers] = {}
    for name in [wanted] if isinstance(wanted, str) else wanted:
        of_the_original = [made for made in called if name in (made.original.__name__, _full_name(made.original))]
        chosen = of_the_original or [made for made in called if made.name == name]
        if not chosen:
            raise UnknownChoice(
                "class to checkpoint", name, dict.fromkeys(n for m in called for n in (m.original.__name__, m.name))
            )
        found |= {made.name: _constants(made, program) | _numbers(made, program.numbers) for made in chosen}
    return found


def checkpointed(
    call: syntax.FunctionDef | None, numbers: Numbers, policy: str = "", *, is_scanned: bool = False
) -> list[syntax.FunctionDef]:
    """The methods of a class whose call is checkpointed.

    Args:
        call: its ``__call__``; None for a Sequential, which inherits it.
        numbers: the positions of arguments that are no arrays.
        policy: a name of `POLICIES`.
        is_scanned: whether it is called in scans only, where common subexpressions cannot defeat the recomputation
            (``prevent_cse=False``).
    """
    places = tuple(numbers) if len(numbers) > 1 else "".join(map(str, numbers))
    options = ["prevent_cse=False"] if is_scanned else []
    options += [f"static_argnums={places}"] if numbers else []
    options += [f"policy=jax.checkpoint_policies.{POLICIES[policy]}"] if policy else []
    decorator = code(f"nnx.remat({', '.join(options)})" if options else "nnx.remat")
    call = call or _INHERITED
    parameters = tuple(
        replace(parameter, annotation=syntax.Name(numbers[place])) if place in numbers else parameter
        for place, parameter in enumerate(call.parameters)
    )
    by_name = parameters[-1]
    if by_name.kind != "**":
        return [replace(call, parameters=parameters, decorators=(decorator,))]
    # ``**kwargs`` is passed to `nnx.remat` as one dict: it identifies arguments by position.
    plain, stars = ([each for each in parameters if each.kind == kind] for kind in ("", "*"))
    passed = [syntax.Name(parameter.name) for parameter in (*plain[1:], by_name)]
    starred = [syntax.Starred(syntax.Name(parameter.name)) for parameter in stars]
    inner = syntax.Call(code(f"self.{_INNER}"), (*passed, *starred))
    outer = replace(call, parameters=parameters, body=(syntax.Return(inner),))
    gathered = syntax.Parameter(by_name.name, code("dict[str, Any]"))
    return [outer, replace(call, name=_INNER, parameters=(*plain, gathered, *stars), decorators=(decorator,))]


_INHERITED = syntax.FunctionDef(
    "__call__",
    (syntax.Parameter("self"), syntax.Parameter("input", code("jax.Array"))),
    (syntax.Return(code("super().__call__(input)")),),
    returns=code("jax.Array"),
)
"""A Sequential's call: it has none of its own that could be decorated."""


def _constants(made: FoldedClass, program: Program) -> Numbers:
    """The arguments of a class's call that are switches, words or numbers in every instance."""
    found: Numbers = {}
    for place, parameter in enumerate(made.body.parameters if made.body is not None else (), 1):
        kinds = {kind for path in made.members for kind in program.annotations.get(path, {}).get(parameter, ())}
        some = kinds - {"None"}
        if some and some <= _CONSTANTS:
            found[place] = some.pop() if len(kinds) == 1 else "Any"
    return found


def _numbers(made: FoldedClass, received: Mapping[str, Mapping[str, str]]) -> Numbers:
    """The arguments of a class's call that are numbers, over all of its instances."""
    found: Numbers = {}
    for place, parameter in enumerate(made.body.parameters if made.body is not None else (), 1):
        name = parameter.lstrip("*")
        kinds = {received[path][name] for path in made.members if name in received.get(path, {})}
        if not kinds:
            continue
        if parameter != name or len(kinds) > 1 or "" in kinds:
            raise UsageError(
                f"{made.name} cannot be checkpointed: its argument {name} mixes whole numbers with arrays. "
                "Checkpoint the classes inside it, or translate it with fixed lengths"
            )
        found[place] = kinds.pop()
    return found


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
