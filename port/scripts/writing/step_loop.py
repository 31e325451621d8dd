"""Read a script's loop over steps without a DataLoader: its batches, and its sequence of updates and evaluations."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from port.errors import UsageError
from port.scripts.events import Event
from port.scripts.observation import Observation
from port.scripts.wording import place_of
from port.scripts.writing.epochs import passed_arguments
from port.scripts.writing.held_out_batches import HeldOut, held_out_batches
from port.scripts.writing.loop import EpochLoop, bodies, making_models, plain_interval
from port.scripts.writing.loop_slice import LoopSlice, Yielded, holds_call, names_set_in, slice_of, statement_at
from port.scripts.writing.own_batches import EVALUATION, TRAINING, flattened_script
from port.scripts.writing.own_calls import Function
from port.scripts.writing.parsed_options import with_options_parsed
from port.scripts.writing.rate_by_hand import RateByHand, made_with, rate_by_hand
from port.scripts.writing.taken_statements import (
    Taken,
    called_name,
    calls_in,
    holds,
    options_of,
    taken_statements,
)

PLAN = "plan"
"""The name of the generator of the loop's updates and evaluations."""
UPDATES, EVALUATES = '"update"', '"evaluation"'
WITHIN = ".<locals>.<listcomp>"
StepsLoop = ast.For | ast.While


@dataclass
class StepLoop:
    """What a written trainer copies from the loop.

    Attributes:
        loop: the statements, and the generators.
        draws_at: the lines that make a training batch.
        evaluates_at: the lines that evaluate.
        remarks: what is left out.
    """

    loop: EpochLoop
    draws_at: list[int] = field(default_factory=list)
    evaluates_at: list[int] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def is_step_loop(observation: Observation) -> bool:
    """Whether the only loop around a script's updates runs over the updates."""
    where, update = called_at(observation), updated_at(observation)
    if where is None or update is None or where["file"] != update["file"]:
        return False
    tree = flattened_script(ast.parse(Path(where["file"]).read_text("utf-8")))
    found = _loop(tree, update)
    if found is None:
        return False
    loops = [one for one in ast.walk(found[1]) if isinstance(one, StepsLoop) and holds(one, update["line"])]
    return len(loops) == 1


def called_at(observation: Observation) -> Event | None:
    """The line of a step's first call of a model, where its inputs are set."""
    calls = (event for event in observation.steps[0] if event["event"] == "call" and event["has_parameters"])
    return next((dict(event["where"]) for event in calls if event["where"]), None)


def lost_at(observation: Observation) -> Event | None:
    """The line of the last call that leads to a step's loss, where the numbers in it are set."""
    path: list[Event] = next((event["path"] for event in observation.steps[0] if event["event"] == "backward"), [])
    where = path[-1]["where"] if path else None
    return dict(where) if where else None


def updated_at(observation: Observation) -> Event | None:
    """The line of a step's update."""
    return next((dict(event["where"]) for event in observation.steps[0] if event["event"] == "update"), None)


def step_loop_of(
    observation: Observation,
    expressions: Sequence[str],
    models: Sequence[str],
    *,
    takes_rate: bool,
    first_rate: float,
    with_models: bool = False,
    evaluates: bool = True,
    has_numbers: bool = False,
) -> StepLoop:
    """Read the loop from the observed script.

    Args:
        observation: the script's observation.
        expressions: the script's expressions for the inputs of a step.
        models: the trained models, by the script's names.
        takes_rate: whether the script sets the learning rate by hand.
        first_rate: the rate of the first update, if so.
        with_models: whether to copy the models' construction too, because the data is drawn after their weights.
        evaluates: whether the script evaluates the training loss.
        has_numbers: whether some of the expressions are numbers in the loss.

    Raises:
        UsageError: it is not a plain loop; the message has the line, and what to write.
    """
    where, update = called_at(observation), updated_at(observation)
    if where is None or update is None:
        raise UsageError("no model is called in a line of the script: call train_step with your own arrays")
    file = Path(where["file"])
    text = file.read_text("utf-8")
    tree, rows = with_options_parsed(flattened_script(ast.parse(text))), text.splitlines()
    found = _loop(tree, update)
    if found is not None and (again := _called_again(tree, found[0])):
        raise UsageError(
            f"line {found[1].lineno} is in a function that {again}: its order of updates is not visible: write it "
            "around train_step"
        )
    if found is None or not holds(found[1], where["line"]):
        raise UsageError(
            f"{place_of(where)} calls the model outside the loop over the steps: call it there, or write the "
            "loop around train_step"
        )
    scope, loop = found
    before, block = [one for one in scope if one.lineno < loop.lineno], _from(scope, loop)
    yielded = [ast.parse(one, mode="eval").body for one in expressions]
    at = (lost_at(observation) or where) if has_numbers else where
    training = _training(before, loop, at, yielded, rows)
    step = StepLoop(EpochLoop(file, tree, {}, Taken(), _call(PLAN), "step", plain_interval(loop)))
    functions = [one for one in tree.body if isinstance(one, Function)]
    rate = rate_by_hand(loop, first_rate, made_with(observation, tree), functions, rows) if takes_rate else RateByHand()
    evaluation = _evaluation(evaluates, observation, tree, scope, loop, where, expressions, models, rows, step)
    plan = _plan(before, block, update, rate, evaluation, rows)
    parts = [training, plan, *([evaluation.part] if evaluation is not None else [])]
    generators = [training.function(TRAINING), *([evaluation.text] if evaluation else [])]
    generators += [*rate.functions, plan.function(PLAN)]
    needed = {name for one in parts for name in one.needed} | (evaluation.needed if evaluation else set())
    needed = (needed | rate.needed) - {rate.own}
    nodes: list[ast.AST] = [node for one in parts for node in one.nodes]
    _check_needs(needed, observation, loop)
    drawn = making_models(observation, before) if with_models else []
    passed = passed_arguments(tree, scope, where["file"])
    taken = taken_statements(tree, scope, [*passed, *before], [], needed, drawn)
    if taken.options is None and (options := options_of(tree)) in needed:
        taken.options = options
    step.loop.taken, step.loop.loaders = taken, {"training": f"Batches({TRAINING})"}
    if evaluation is not None:
        step.loop.loaders["evaluation"] = f"Batches({evaluation.made_by})"
        step.evaluates_at = [evaluation.statement.lineno]
        nodes += evaluation.around
    step.loop.generators, step.loop.others = generators, [*nodes, *rate.nodes]
    step.loop.is_planned = True
    statements = [one for one in training.nodes if isinstance(one, ast.stmt)]
    point = statement_at([loop], at["line"])
    step.draws_at = sorted({one.lineno for one in [*statements, *([point] if holds_call(yielded) else [])]})
    return step


def _call(name: str) -> ast.expr:
    return ast.parse(f"{name}()", mode="eval").body


def _loop(tree: ast.Module, where: Event) -> tuple[Sequence[ast.stmt], StepsLoop] | None:
    """The outermost loop around a line, and the body that contains it."""
    for _, body in bodies(tree):
        for one in body:
            if isinstance(one, StepsLoop) and holds(one, where["line"]):
                return body, one
    return None


def _called_again(tree: ast.Module, scope: Sequence[ast.stmt]) -> str:
    """How a loop's function is called more than once; empty if it is not."""
    function = next((one for one in tree.body if isinstance(one, Function) and one.body is scope), None)
    if function is None:
        return ""
    loops = [one for one in ast.walk(tree) if isinstance(one, StepsLoop)]
    if any(called_name(call) == function.name for loop in loops for call in calls_in(loop)):
        return "is called in a loop"
    calls = [call for call in calls_in(tree) if called_name(call) == function.name]
    return "is called at several places" if len(calls) > 1 else ""


def _from(scope: Sequence[ast.stmt], loop: StepsLoop) -> list[ast.stmt]:
    """The loop, and the statements after it."""
    return [one for one in scope if one.lineno >= loop.lineno and not isinstance(one, Function | ast.ClassDef)]


def _training(
    before: Sequence[ast.stmt], loop: StepsLoop, where: Event, yielded: Sequence[ast.expr], rows: Sequence[str]
) -> LoopSlice:
    return slice_of(before, [loop], {statement_at([loop], where["line"]): Yielded.of(yielded)}, rows)


def _plan(
    before: Sequence[ast.stmt],
    block: Sequence[ast.stmt],
    update: Event,
    rate: RateByHand,
    evaluation: HeldOut | None,
    rows: Sequence[str],
) -> LoopSlice:
    """The loop, with yields in place of the statements that make an update or an evaluation."""
    points = {statement_at(block, update["line"]): Yielded.of([], UPDATES)}
    if rate.expression is not None:
        points = {one: Yielded.of([rate.expression], f"{UPDATES}, {rate.name}") for one in points}
    if evaluation is not None:
        points[evaluation.statement] = Yielded.of(
            [], f"{EVALUATES}, None" if rate.expression is not None else EVALUATES
        )
    return slice_of([*before, *rate.first], block, points, rows, rate.others)


def _evaluation(
    evaluates: bool,
    observation: Observation,
    tree: ast.Module,
    scope: Sequence[ast.stmt],
    loop: StepsLoop,
    where: Event,
    expressions: Sequence[str],
    models: Sequence[str],
    rows: Sequence[str],
    step: StepLoop,
) -> HeldOut | None:
    """The evaluation's batches; None if there is no evaluation, or none that can be copied."""
    if not observation.evaluation:
        return None
    calls = [e for e in observation.evaluation if e["event"] == "call" and e["has_parameters"] and e["where"]]
    begun = place_of(observation.evaluation[0]["where"])
    others = {event["name"].partition(".")[0] for event in calls} - set(models)
    if others or not calls:
        said = f"the evaluation is of {', '.join(sorted(others))}, which train_step does not train" if others else ""
        step.remarks.append(f"{begun}: {said or 'the evaluation is left out: it calls no model in a visible line'}")
        return None
    if not evaluates:
        step.remarks.append(f"{begun}: the evaluation reads no number from a loss like training's: write it")
        return None
    evaluated = {**calls[0]["where"], "function": calls[0]["where"]["function"].removesuffix(WITHIN)}
    try:
        return held_out_batches(tree, scope, loop, where, evaluated, expressions, rows, EVALUATION)
    except UsageError as error:
        step.remarks.append(f"{begun}: the evaluation is left out: {error}")
        return None


def _check_needs(needed: Iterable[str], observation: Observation, loop: StepsLoop) -> None:
    """Check that neither the batches nor the plan depend on what is trained.

    Raises:
        UsageError: they do.
    """
    trained = {one["name"] for one in [*observation.models, *observation.optimizers]}
    inside = names_set_in(loop)
    if found := sorted(set(needed) & trained):
        raise UsageError(
            f"line {loop.lineno}: the loop's batches, or its length, depend on {', '.join(found)}: write the loop "
            "around train_step"
        )
    if found := sorted(set(needed) & inside):
        raise UsageError(
            f"line {loop.lineno}: {', '.join(found)}, which the batches or their plan need, is made in the loop: write "
            "the loop around train_step"
        )
