"""Classes whose activations are made again in the backward pass instead of being kept: calls under ``nnx.remat``."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from port.errors import UnknownChoice, UsageError
from port.translation.structure.class_merge import FoldedClass
from port.translation.structure.classes import Program

Numbers = dict[int, str]
"""Of a call's arguments, those that are whole numbers and no arrays: their places, ``self`` at 0 → annotations."""

_INNER = "_checkpointed_call"


def checkpointed_classes(program: Program, wanted: Sequence[str] | str) -> dict[str, Numbers]:
    """The written classes that are to be checkpointed.

    Args:
        program: all of them.
        wanted: names of the original's classes, ``Block`` or ``package.module.Block``: whatever one of them was
            written as is checkpointed; or the name of a written class, for it alone.

    Returns:
        their names → which of their arguments are numbers.

    Raises:
        UnknownChoice: no class that is written and called has such a name; lists those that have one.
        UsageError: one is given numbers among arrays, of which `nnx.remat` would make arrays, too.
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
        found |= {made.name: _numbers(made, program.numbers) for made in chosen}
    return found


def checkpointed(call: ast.FunctionDef | None, numbers: Numbers) -> list[ast.stmt]:
    """The methods of a class whose call is checkpointed.

    Args:
        call: its ``__call__``; None for a Sequential's, which it inherits.
        numbers: which of its arguments are no arrays.
    """
    places = tuple(numbers) if len(numbers) > 1 else "".join(map(str, numbers))
    decorator = ast.parse(f"nnx.remat(static_argnums={places})" if numbers else "nnx.remat", mode="eval").body
    if call is None:
        source = "def __call__(self, input: jax.Array) -> jax.Array:\n    return super().__call__(input)"
        inherited = ast.parse(source).body[0]
        assert isinstance(inherited, ast.FunctionDef)
        call = inherited
    for place, annotation in numbers.items():
        call.args.args[place].annotation = ast.Name(annotation)
    call.decorator_list = [decorator]
    if call.args.kwarg is None:
        return [call]
    # What comes by any name comes to `nnx.remat` as one dict: it knows arguments by their places.
    outer = ast.FunctionDef("__call__", call.args, [], [], call.returns, lineno=0)  # type: ignore[call-arg]
    given: list[ast.expr] = [ast.Name(argument.arg) for argument in call.args.args[1:]]
    given.append(ast.Name(call.args.kwarg.arg))
    if call.args.vararg is not None:
        given.append(ast.Starred(ast.Name(call.args.vararg.arg), ast.Load()))
    outer.body = [ast.Return(ast.Call(ast.parse(f"self.{_INNER}", mode="eval").body, given, []))]
    by_name = ast.arg(call.args.kwarg.arg, ast.parse("dict[str, Any]", mode="eval").body)
    call.name = _INNER
    call.args = ast.arguments([], [*call.args.args, by_name], call.args.vararg, [], [], None, [])
    return [outer, call]


def _numbers(made: FoldedClass, given: dict[str, dict[str, str]]) -> Numbers:
    """Which arguments of a class's call are numbers, of all that its instances are given."""
    found: Numbers = {}
    for place, parameter in enumerate(made.body.parameters if made.body is not None else (), 1):
        name = parameter.lstrip("*")
        kinds = {given[path][name] for path in made.members if name in given.get(path, {})}
        if not kinds:
            continue
        if parameter != name or len(kinds) > 1 or "" in kinds:
            raise UsageError(
                f"{made.name} cannot be checkpointed: it is given whole numbers among arrays, as its argument {name}. "
                "Checkpoint the classes inside it, or translate it with fixed lengths"
            )
        found[place] = kinds.pop()
    return found


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
