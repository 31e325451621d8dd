"""Validation of registered pairs, before a wrong one breaks a translation or a converted optimizer."""

from __future__ import annotations

import ast
import builtins
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from functools import singledispatch
from typing import Any

from port.errors import UsageError, described, explained
from port.pairs.expression import Expression
from port.pairs.notes import NOTES
from port.pairs.ops import GIVEN, OperatorPair
from port.pairs.ops.axes import Along, Over, Spatial
from port.pairs.ops.imports import TAKEN, names_of_imports
from port.pairs.optimizers import OptimizerPair, all_optimizers
from port.pairs.pair import LayerPair, ParamPair, name_of
from port.pairs.registered import registered
from port.pairs.schedules.pair import SchedulePair

Pair = LayerPair | OperatorPair | OptimizerPair | SchedulePair
_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")


@singledispatch
def refuse_unsound(pair: Any) -> None:
    """Check a pair as far as possible without resolving the names in it.

    Raises:
        UsageError: not a pair; or one with a field of a wrong type, or with contradictory fields.
    """
    raise UsageError(
        "port.register takes a pair of port.pairs: a LayerPair (of layers and losses), an OperatorPair, an "
        f"OptimizerPair or a SchedulePair; got {described(pair)}"
    )


@refuse_unsound.register
def _(pair: LayerPair) -> None:
    for side in ("torch", "flax"):
        named = getattr(pair, side)
        if isinstance(named, str):
            _expect_dotted(pair, side, named)
        elif not callable(named):
            raise _wrong(pair, side, 'a name, as in "my_pkg.Scale", or the class itself', named)
    if not callable(pair.params) and not _all_are(pair.params, ParamPair):
        raise _wrong(pair, "params", "a tuple of ParamPair, or a function that gives one", pair.params)
    _expect_notes(pair)
    _expect_functions(pair, "facts_of_torch facts_of_flax fits_torch fits_flax arguments initializers unfit lacks")


@refuse_unsound.register
def _(pair: OperatorPair) -> None:
    _expect_dotted(pair, "torch", pair.torch)
    _expect_dotted(pair, "aten", pair.aten)
    _expect_notes(pair)
    said = _parsed(pair, "says", pair.says)
    variables = {node.id for node in ast.walk(said) if isinstance(node, ast.Name)} - {"torch"}
    try:
        imported = names_of_imports(pair.imports)
    except SyntaxError as error:
        raise UsageError(f"{_pair_name(pair)}: imports must be import lines: {error.msg}") from error
    for name, line in imported.items():
        if name.partition(".")[0] in TAKEN and line not in GIVEN.splitlines():
            raise UsageError(
                f"{pair.says}: {line!r} gives the name {name}, which means something else in the source: import it as "
                "another"
            )
        for other in registered(OperatorPair):
            if names_of_imports(other.imports).get(name, line) != line:
                raise UsageError(
                    f"{pair.says}: {line!r} gives the name {name}, by which the pair of {other.torch} imports "
                    "something else: import it as another"
                )
    drawn = {pair.draws.name} if pair.draws is not None else set()
    known = variables | drawn | {name.partition(".")[0] for name in imported} | _ALWAYS_IMPORTED | set(dir(builtins))
    for part in ("jax", "only_if", "other_gradient"):
        source = getattr(pair, part)
        if unknown := sorted(_read(_parsed(pair, part, source)) - known) if source or part == "jax" else ():
            raise UsageError(
                f"{pair.says}: its {part} reads {', '.join(unknown)}, which is no argument of the call and is not "
                'imported: call arguments as the call does, and import the rest, imports=("import my_kernels",)'
            )
    named = {"left_out": pair.left_out, "schema": filter(None, pair.schema.values()), "axes": _axes(pair)}
    for part, names in named.items():
        if unknown := sorted(set(names) - variables):
            raise UsageError(f"{pair.says}: its {part} names {', '.join(unknown)}, which is no argument of the call")


@refuse_unsound.register
def _(pair: OptimizerPair) -> None:
    _expect_dotted(pair, "torch", pair.torch)
    if not isinstance(pair.name, str) or not pair.name:
        raise _wrong(pair, "name", "its name in port.optim.by_name", pair.name)
    other = next((other for other in all_optimizers() if other.name == pair.name and other.torch != pair.torch), None)
    if other is not None:
        raise UsageError(f"{pair.torch} cannot be called {pair.name!r}: that is {other.torch}; give it another name")
    if not isinstance(pair.defaults, Mapping) or "lr" not in pair.defaults:
        raise _wrong(pair, "defaults", "the options and their defaults, lr among them", pair.defaults)
    _expect_notes(pair)
    _expect_functions(pair, "chain conflict refused foreign remark")
    _expect_known(pair, "takes", pair.takes, pair.defaults, "defaults")
    _expect_known(pair, "scalars", pair.scalars, pair.keys, "state")
    _expect_known(pair, "flags", pair.flags, {field for own in pair.state.values() for field in own}, "state")
    cycled = {"momentum", "betas"} & set(pair.defaults)
    if pair.schedules_momentum not in (None, *cycled):
        expected = 'one of its defaults that torch\'s schedulers cycle, "momentum" or "betas", or None'
        raise _wrong(pair, "schedules_momentum", expected, pair.schedules_momentum)
    if pair.whole_count and not pair.counts:
        raise UsageError(f"{pair.torch}: whole_count is about a count of steps, but counts=False says there is none")
    if pair.rate_in_its_dtype and "weight_decay" not in pair.defaults:
        raise UsageError(f"{pair.torch}: rate_in_its_dtype is about 1 − lr · weight_decay, but it has no weight_decay")
    if pair.closure:
        raise UsageError(f"{pair.torch}: closure=True is only for torch.optim.LBFGS, with its special kind of memory")
    if pair.refused(pair.defaults) is None:
        with explained(f"{pair.torch}: its chain fails with the defaults"):
            chain = pair.chain(pair.defaults)
        if not isinstance(chain, Expression):
            expected = 'a function that gives an Expression, as in Expression("optax.sgd", (options["lr"],))'
            raise _wrong(pair, "chain", expected, chain)


@refuse_unsound.register
def _(pair: SchedulePair) -> None:
    _expect_dotted(pair, "torch", pair.torch)
    _expect_functions(pair, "learning_rate momentum rewind")
    if _positional(pair.learning_rate) not in (3, None):
        expected = "a function of the scheduler, the number of the optimizer's group, and the base rate"
        raise _wrong(pair, "learning_rate", expected, pair.learning_rate)
    if pair.keys is not None and not _all_are(pair.keys, str):
        raise _wrong(pair, "keys", "a tuple of the names in its state dict, or None", pair.keys)


_ALWAYS_IMPORTED = {
    name.asname or name.name.partition(".")[0]
    for node in ast.walk(ast.parse(GIVEN))
    if isinstance(node, ast.Import | ast.ImportFrom)
    for name in node.names
}


def _pair_name(pair: Pair) -> str:
    torch = name_of(pair.torch) if isinstance(pair.torch, str | type) else repr(pair.torch)
    return f"{type(pair).__name__} of {torch}"


def _wrong(pair: Pair, part: str, expected: str, got: Any) -> UsageError:
    return UsageError(f"{_pair_name(pair)}: {part} must be {expected}; got {got!r:.80}")


def _expect_dotted(pair: Pair, part: str, name: Any) -> None:
    if not isinstance(name, str) or not _DOTTED.fullmatch(name):
        raise _wrong(pair, part, 'a public name with its module, as in "my_pkg.Name"', name)


def _expect_functions(pair: Pair, parts: str) -> None:
    for part in parts.split():
        if not callable(getattr(pair, part)):
            raise _wrong(pair, part, "a function", getattr(pair, part))


def _expect_notes(pair: LayerPair | OperatorPair | OptimizerPair) -> None:
    if unknown := sorted(set(pair.notes) - {note.id for note in NOTES}):
        raise UsageError(
            f"{_pair_name(pair)}: its notes name {', '.join(unknown)}, but notes are ids of the table that "
            "port diff --table prints"
        )


def _expect_known(pair: Pair, part: str, names: Iterable[str], known: Iterable[str], where: str) -> None:
    if unknown := sorted(set(names) - set(known)):
        raise UsageError(
            f"{_pair_name(pair)}: its {part} names {', '.join(unknown)}, but its {where} "
            f"{', '.join(sorted(known)) or 'nothing'}"
        )


def _all_are(items: Any, kind: type) -> bool:
    return isinstance(items, tuple | list) and all(isinstance(item, kind) for item in items)


def _parsed(pair: OperatorPair, part: str, source: Any) -> ast.AST:
    try:
        return ast.parse(source, mode="eval")
    except (SyntaxError, TypeError) as error:
        raise UsageError(f"{_pair_name(pair)}: {part} must be a Python expression; got {source!r}: {error}") from error


def _read(tree: ast.AST) -> set[str]:
    """Return the free names of an expression: those not bound by a comprehension or a lambda in it."""
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    own = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    own |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    return {node.id for node in names} - own


def _axes(pair: OperatorPair) -> tuple[str, ...]:
    """Return the variables that a pair's axes name."""
    match pair.axes:
        case Along(variables=names):
            return names
        case Over(variable=variable, keepdim=keepdim):
            return tuple(name for name in (variable, keepdim) if name is not None)
        case Spatial():
            return ("input",)
    return ()


def _positional(function: Callable[..., Any]) -> int | None:
    """Return a function's number of positional arguments; None if it varies or is unknown."""
    try:
        taken = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(one.kind is one.VAR_POSITIONAL or one.default is not one.empty for one in taken):
        return None
    return sum(one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in taken)
