"""Write a generator of numbers that differ between updates over a DataLoader: a rate set by hand, a growing weight."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from port.errors import UsageError
from port.scripts.events import Event
from port.scripts.observation import Observation
from port.scripts.wording import place_of
from port.scripts.writing.loop import bodies, without_guard
from port.scripts.writing.loop_lines import counted_by
from port.scripts.writing.loop_slice import Yielded, names_set_in, slice_of
from port.scripts.writing.own_calls import Function
from port.scripts.writing.own_rates import rate_expression
from port.scripts.writing.rate_by_hand import RateByHand, made_with, rate_by_hand
from port.scripts.writing.taken_statements import holds

RATES, NUMBERS = "rates", "numbers"
BATCHES = "batches"
"""The generator's parameter: the number of batches per epoch."""


@dataclass(frozen=True)
class UpdateNumbers:
    """A generator of the numbers, from the script's statements.

    Attributes:
        name: "rates", if each is a learning rate; or "numbers", which are inputs of train_step.
        text: the generator's source; its argument is the number of batches per epoch.
        needed: names that it needs from elsewhere.
        nodes: the statements in it.
    """

    name: str
    text: str
    needed: frozenset[str]
    nodes: tuple[ast.AST, ...]


def update_numbers(
    observation: Observation, begun: Event, expressions: Sequence[str], *, takes_rate: bool, first_rate: float
) -> UpdateNumbers:
    """Find the numbers in the script.

    Args:
        observation: the script's observation.
        begun: the line of the loop over its batches.
        expressions: the script's expressions for the numbers; empty for a rate.
        takes_rate: whether it is a rate.
        first_rate: the first update's rate.

    Raises:
        UsageError: they are too complex; the message has the line, and what to write.
    """
    if takes_rate and expressions:
        raise UsageError(f"the script sets the learning rate by hand, and {', '.join(expressions)}: write the loop")
    file = Path(begun["file"])
    text = file.read_text("utf-8")
    tree = without_guard(ast.parse(text), begun)
    scope, outer = _outermost(tree, begun)
    inner = [one for one in ast.walk(outer) if isinstance(one, ast.For) and holds(one, begun["line"])]
    loop = max(inner, key=lambda one: one.lineno)
    rate = RateByHand()
    update = next(event for event in observation.steps[0] if event["event"] == "update")
    at = next(event["where"] for event in observation.steps[0] if event["event"] == "backward")
    if takes_rate and update["by_hand"]:
        at, yielded = update["where"], [rate_expression(update)]
    elif takes_rate:
        functions = [one for one in tree.body if isinstance(one, Function)]
        rate = rate_by_hand(outer, first_rate, made_with(observation, tree), functions, text.splitlines())
        at, yielded = update["where"], [rate.expression or ast.Name(rate.name, ast.Load())]
    else:
        yielded = [ast.parse(one, mode="eval").body for one in expressions]
    points = {_child_at(loop, at): Yielded.of(yielded, ast.unparse(yielded[0]) if takes_rate else None)}
    head: dict[ast.stmt, str] = {loop: f"for {counted_by(loop) or '_'} in range({BATCHES}):"}
    before = [*(one for one in scope if one.lineno < outer.lineno), *rate.first]
    made = slice_of(before, [outer], points, text.splitlines(), rate.others, head)
    needed = (made.needed | rate.needed) - {BATCHES, rate.own}
    _check(needed, observation, outer)
    name = RATES if takes_rate else NUMBERS
    nodes = (*made.nodes, *rate.nodes)
    return UpdateNumbers(name, "\n\n".join([*rate.functions, made.function(name, [BATCHES])]), needed, nodes)


def _outermost(tree: ast.Module, begun: Event) -> tuple[Sequence[ast.stmt], ast.For | ast.While]:
    for _, body in bodies(tree):
        for one in body:
            if isinstance(one, ast.For | ast.While) and holds(one, begun["line"]):
                return body, one
    raise UsageError(f"{place_of(begun)} is in no loop: write the loop around train_step")


def _child_at(loop: ast.For, where: Event) -> ast.stmt:
    """The statement of the loop's body around a line, with its conditions; for a loop over the weights, all of it."""
    block: Sequence[ast.stmt] = loop.body
    while found := [one for one in block if holds(one, where["line"])]:
        if not isinstance(found[0], ast.If | ast.With):
            return found[0]
        block = [*found[0].body, *getattr(found[0], "orelse", ())]
    raise UsageError(f"{place_of(where)} is not in the loop over the batches: write the loop around train_step")


def _check(needed: frozenset[str], observation: Observation, outer: ast.stmt) -> None:
    inside = names_set_in(outer)
    trained = {one["name"] for one in [*observation.models, *observation.optimizers]}
    if found := sorted(needed & (inside | trained)):
        raise UsageError(
            f"line {outer.lineno}: a number that each update takes depends on {', '.join(found)}: compute it by hand, "
            "and call train_step with it"
        )
