"""Read a script's loop without a DataLoader: what a written trainer copies from it."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from port.errors import UsageError
from port.scripts.events import Event
from port.scripts.observation import Observation
from port.scripts.wording import place_of
from port.scripts.writing.loop import EpochLoop, bodies, is_behind, loop_over_batches, plain_interval
from port.scripts.writing.own_batches import EVALUATION, TRAINING, flattened_script, loop_at, own_batches
from port.scripts.writing.own_calls import Function
from port.scripts.writing.own_rates import rate_expression, rates_source
from port.scripts.writing.parsed_options import with_options_parsed
from port.scripts.writing.states import variable_of
from port.scripts.writing.taken_statements import (
    called_name,
    calls_in,
    names_loaded,
    options_of,
    runs,
    taken_statements,
)


def own_loop_of(
    observation: Observation, expressions: Sequence[str], states: Sequence[str], *, takes_rate: bool
) -> tuple[EpochLoop, list[str]]:
    """Read the loop from the observed script; returns it, and remarks on what is left out.

    Args:
        observation: the script's observation.
        expressions: the script's expressions for the inputs of a step.
        states: the values that a step carries to the next one.
        takes_rate: whether the script sets the learning rate by hand.

    Raises:
        UsageError: it is not a plain loop; the message has the line, and what to write.
    """
    where = _called_at(observation.steps[0])
    file = Path(where["file"])
    text = file.read_text("utf-8")
    tree, rows = with_options_parsed(flattened_script(ast.parse(text))), text.splitlines()
    loop, function = loop_at(tree, where)
    scope, epochs = _scope(tree, loop, where)
    own = None if function is None or function.body is scope else function
    training = own_batches(rows, (loop, own), scope, epochs, where, expressions, TRAINING)
    for state in states:
        if epochs is not None and variable_of(state) not in training.begun:
            raise UsageError(
                f"{place_of(where)}: {variable_of(state)} is carried over from epoch to epoch: write the loop by hand"
            )
    generators, loaders = [training.text], {"training": f"Batches(lambda: {training.call})"}
    needed, others = set(training.needed), list(training.nodes)
    remarks: list[str] = []
    evaluated = next((one["where"] for one in observation.evaluation if _is_model(one)), None)
    if evaluated is not None:
        try:
            found = loop_at(tree, evaluated)
            inner = None if found[1] is None or found[1].body is scope else found[1]
            held_out = own_batches(rows, (found[0], inner), scope, epochs, evaluated, expressions, EVALUATION)
            generators.append(held_out.text)
            loaders["evaluation"] = f"Batches(lambda: {held_out.call})"
            needed |= held_out.needed
            others += held_out.nodes
        except UsageError as error:
            remarks.append(f"the evaluation is left out: {error}")
    rates, hears = "", False
    if takes_rate:
        update = next(one for one in observation.steps[0] if one["event"] == "update")
        if epochs is None or not update["by_hand"]:
            raise UsageError("the script sets the learning rate by hand: compute it before each call of train_step")
        models = {one["name"] for one in observation.models}
        evaluates = evaluated if "evaluation" in loaders else None
        rate = rate_expression(update)
        rates, hears, nodes, lacking = rates_source(scope, epochs, rate, where, evaluates, models)
        others += nodes
        needed |= lacking
        if hears:
            remarks.append(f"the rate follows from the result of train.py's own evaluation: {place_of(evaluated)}")
    before = [one for one in scope if one.lineno < (epochs or loop).lineno]
    iterated: ast.expr = epochs.iter if epochs is not None else ast.parse("range(1)", mode="eval").body
    also = {name for one in others for name in _loaded(one)}
    taken = taken_statements(tree, scope, before, [], needed | names_loaded(iterated))
    if taken.options is None and (options := options_of(tree)) in also:
        taken.options = options
    target = epochs.target.id if epochs is not None and isinstance(epochs.target, ast.Name) else "epoch"
    body = loop_over_batches(tree, where["line"])
    inside = ast.walk(body) if body is not None else ()
    jumps: list[ast.stmt] = [one for one in inside if isinstance(one, ast.Break | ast.Continue)]
    at_end = epochs is not None and evaluated is not None and is_behind(epochs, scope, evaluated)
    read = EpochLoop(file, tree, loaders, taken, iterated, target, plain_interval(body), jumps, at_end)
    read.generators, read.rates, read.hears, read.others = generators, rates, hears, others
    read.see_when_it_evaluates(epochs, where, evaluated)
    return read, remarks


def _called_at(step: Sequence[Event]) -> dict[str, Any]:
    """The line of a step's first call of a model, where its inputs are set."""
    found = next((one["where"] for one in step if _is_model(one)), None)
    if found is None:
        raise UsageError("no model is called in a line of the script: call train_step with your own arrays")
    return dict(found)


def _is_model(event: Event) -> bool:
    return bool(event["event"] == "call" and event["has_parameters"] and event["where"])


def _scope(tree: ast.Module, loop: ast.For, where: dict[str, Any]) -> tuple[Sequence[ast.stmt], ast.For | None]:
    """The body with the loop over the epochs, and that loop; None if there is none.

    Raises:
        UsageError: there is no such body.
    """
    for _, body in bodies(tree):
        for statement in body:
            if statement is loop:
                return body, None
            if isinstance(statement, Function | ast.ClassDef) or not runs(statement, where):
                continue
            is_range = isinstance(statement, ast.For) and "range" in map(called_name, calls_in(statement.iter))
            if isinstance(statement, ast.For) and is_range:
                return body, statement
            raise UsageError(
                f"line {statement.lineno} does not loop over the epochs with `for … in range(…)`: write the loop "
                "around train_step"
            )
    raise UsageError(f"{place_of(where)}: the loop over the epochs was not found: write it around train_step")


def _loaded(node: ast.AST) -> set[str]:
    return names_loaded(node) if isinstance(node, ast.stmt | ast.expr) else set()
