"""Copy the lines of a script's loop that make model inputs from each batch, such as noise that it draws."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from port.errors import UsageError
from port.scripts.events import Event
from port.scripts.observation import Observation
from port.scripts.wording import place_of
from port.scripts.writing.loop import loop_over_batches
from port.scripts.writing.taken_statements import called_name, changes, holds, names_loaded, names_set


@dataclass(frozen=True)
class LoopLines:
    """The body of a function of a batch.

    Attributes:
        body: its statements, copied from the script.
        results: the inputs of train_step, as expressions, in order.
        needs: names set before the loop.
    """

    body: tuple[str, ...]
    results: tuple[str, ...]
    needs: frozenset[str]


def loop_lines(
    observation: Observation, parts: Mapping[str, str], made: Mapping[str, Event], models: Collection[str]
) -> LoopLines:
    """The lines that make the inputs of train_step.

    Args:
        observation: the script's observation.
        parts: input → where in a batch it is; None for inputs that are made.
        made: input → the call that makes it, in the script's order.
        models: names of the script's models, which these lines must not call.

    Raises:
        UsageError: they cannot be separated from the rest of the loop; the message names the line.
    """
    begun = observation.trained_on()
    assert begun is not None
    tree = ast.parse(Path(begun["file"]).read_text("utf-8"))
    loop = loop_over_batches(tree, begun["line"])
    if loop is None:
        raise UsageError(f"{place_of(begun)} is in no loop over the batches: write the loop around train_step")
    batch, counters = _targets(loop, begun)
    said = _expressions(loop, made, begun)
    statements = _statements(loop, {name: call for name, call in made.items() if name not in said})
    lines: list[str] = []
    needed = {name for one in said.values() for name in names_loaded(ast.parse(one, mode="eval").body)}
    last = max([*statements.values(), *_setting(loop, needed, observation)], default=-1)
    for statement in reversed(loop.body[: last + 1]):
        here = [name for name, place in statements.items() if loop.body[place] is statement]
        if here:
            for name in reversed(here):
                lines.append(f"{name} = {made[name]['where']['text']}")
                needed = (needed - {name}) | names_loaded(ast.parse(made[name]["where"]["text"], mode="eval").body)
        elif set(names_set(statement)) & needed or changes(statement, needed):
            own = set(names_set(statement))
            if isinstance(statement, ast.Assign | ast.AnnAssign | ast.With):
                needed -= own
            needed |= names_loaded(statement) - (own if isinstance(statement, ast.With) else set())
            lines.append(ast.unparse(statement))
    own = {name.id for name in ast.walk(batch) if isinstance(name, ast.Name)}
    carried = {
        name for one in ast.walk(loop) if isinstance(one, ast.stmt) and one is not loop for name in names_set(one)
    }
    strange = sorted(needed & {*counters, *models, *(carried - own)})
    if strange:
        wheres = [call["where"] for call in made.values() if call["where"]]
        raise UsageError(
            f"{', '.join(made)}, an input of train_step, is made in the loop with {', '.join(strange)} ("
            f"{place_of(wheres[0] if wheres else begun)}): write the code that makes it; call train_step with arrays"
        )
    if needed & own:
        lines.append(f"{ast.unparse(batch)} = batch")
    results = [said.get(name, name) if name in made else part_of_batch(parts[name]) for name in {**parts, **made}]
    outside = needed - own - set(vars(builtins))
    return LoopLines(tuple(lines[::-1]), tuple(results), frozenset(outside))


def _expressions(loop: ast.For, made: Mapping[str, Event], begun: Event) -> dict[str, str]:
    """The inputs made by a function that the loop calls, not by its plain statements: by the loop's expressions.

    Raises:
        UsageError: two have the same name.
    """
    found = {
        name: str(call["expression"])
        for name, call in made.items()
        if call.get("expression") and _place(loop, call) is None
    }
    for name, said in found.items():
        if not made[name]["where"]:
            continue  # a number, whose expression was checked in each step
        others = [other for other in found if other != name and found[other] == said]
        if others:
            raise UsageError(
                f"{name} and {others[0]}, inputs of train_step, are both called {said} in the loop over the batches "
                f"({place_of(begun)}): give them different names"
            )
    return found


def _place(loop: ast.For, call: Event) -> int | None:
    """The plain statement of the loop that contains a call; None if none does."""
    line = call["where"]["line"] if call["where"] else 0
    plain = ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Expr
    return next((n for n, one in enumerate(loop.body) if isinstance(one, plain) and holds(one, line)), None)


def _setting(loop: ast.For, names: set[str], observation: Observation) -> list[int]:
    """The last statement of the loop that sets each name before the loss is computed."""
    ends = min((e["where"]["line"] for e in observation.steps[0] if e["event"] == "backward"), default=loop.lineno)
    places = {name: n for n, one in enumerate(loop.body) if one.lineno <= ends for name in names_set(one)}
    return [places[name] for name in names if name in places]


def _targets(loop: ast.For, begun: Event) -> tuple[ast.expr, set[str]]:
    """The target that holds the batch, and the names of its counters."""
    match loop.target, loop.iter:
        case ast.Tuple(elts=[counter, batch]), ast.Call() as call if called_name(call) == "enumerate":
            return batch, set(names_set(ast.Assign([counter], ast.Constant(0), lineno=1)))
        case batch, ast.Name() | ast.Attribute():
            return batch, set()
        case batch, ast.Call() as call if called_name(call) in ("tqdm", "trange", "track"):
            return batch, set()
    raise UsageError(
        f"{place_of(begun)} loops over the batches neither with `for … in loader` nor with enumerate(loader): write "
        "the loop around train_step"
    )


def counted_by(loop: ast.For) -> str | None:
    """The variable that counts the batches from 0; None if there is none."""
    match loop.target, loop.iter:
        case ast.Tuple(elts=[ast.Name(name), _]), ast.Call(args=[_, *start], keywords=[]) as call:
            is_from_0 = all(isinstance(one, ast.Constant) and one.value == 0 for one in start)
            return name if called_name(call) == "enumerate" and is_from_0 else None
    return None


def _statements(loop: ast.For, made: Mapping[str, Event]) -> dict[str, int]:
    """The index of the loop's statement that makes each input."""
    found = {}
    for name, call in made.items():
        place = _place(loop, call)
        if place is None:
            raise UsageError(
                f"{name}, an input of train_step, is made at {place_of(call['where'])}, which is no plain statement of "
                "the loop over the batches: write the code that makes it, and call train_step with arrays"
            )
        found[name] = place
    return found


def part_of_batch(path: str) -> str:
    """``batch[0]['image']``, for ``0.image``."""
    return "batch" + "".join(f"[{step}]" if step.isdigit() else f"[{step!r}]" for step in path.split(".") if step)


def indented(lines: Sequence[str]) -> list[str]:
    """Indent the lines of a function's body."""
    return [f"    {row}" for line in lines for row in line.splitlines()]


def inputs_function(lines: LoopLines) -> list[str]:
    """The function, as source."""
    returned = ", ".join(lines.results) + ("," if len(lines.results) == 1 else "")
    return [
        "def inputs(batch: Any) -> tuple[Any, ...]:",
        '    """The inputs of an update: parts of a batch, and values that the loop makes from it."""',
        *indented(lines.body),
        f"    return {returned}",
    ]
