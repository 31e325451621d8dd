"""What a script prints while it trains, found in its loop by what was seen of its steps."""

from __future__ import annotations

import ast

from port.scripts.events import Event
from port.scripts.observation import Observation
from port.scripts.writing.loop import EpochLoop, loop_over_batches
from port.scripts.writing.loop_lines import counted_by
from port.scripts.writing.own_telling import OwnTelling, WrittenEvaluation, WrittenNames, own_telling
from port.scripts.writing.taken_over import OWN_NAMES
from port.scripts.writing.taken_statements import called_name
from port.scripts.writing.trainer_facts import TrainerFacts

BACKWARD = ("backward", "scale")


def telling_of(loop: EpochLoop, observation: Observation, facts: TrainerFacts) -> OwnTelling | None:
    """The script's own lines that tell of its training; None where there are none that train.py can have.

    Args:
        loop: of the script.
        observation: of it.
        facts: what train.py says besides.
    """
    begun = next(e["where"] for step in observation.steps for e in step if e["event"] == "batch")
    batches = loop_over_batches(loop.tree, begun["line"])
    loss = _loss_name(observation)
    if batches is None or loop.statement is None or loss is None:
        return None
    counter = counted_by(batches)
    said = {"training": "training", "evaluation": 'loaders["evaluation"]'}
    known = {
        **{variable: said[what] for what, variable in loop.loaders.items()},
        **({loop.taken.options: "args"} if loop.taken.options else {}),
        **({counter: "batch_number"} if counter else {}),
        loop.epoch: facts.epoch,
    }
    names = WrittenNames(loss, known, _parts(batches, facts), OWN_NAMES - {"losses"})  # those are of several turns
    evaluation = None
    if facts.own_evaluation is not None:
        own = facts.own_evaluation
        where = next(event["where"] for event in observation.evaluation if event["event"] == "batch")
        is_each = not facts.evaluates_if and not facts.evaluates_at_end
        given = tuple(one.strip() for one in (own.shown or "").split(",")) if is_each else ()
        evaluation = WrittenEvaluation(where, own.lines, tuple(one for one in given if one.isidentifier()))
    return own_telling(loop.tree, loop.statement.body, batches, names, evaluation, str(loop.file))


def _loss_name(observation: Observation) -> str | None:
    """``loss`` of ``loss.backward()``, ``scaler.scale(loss).backward()``, ``accelerator.backward(loss)``."""
    where: Event | None = next((e["where"] for e in observation.steps[0] if e["event"] == "backward"), None)
    if where is None:
        return None
    try:
        node: ast.expr = ast.parse(where["text"], mode="eval").body
    except SyntaxError:
        return None
    while isinstance(node, ast.Call) and called_name(node) in BACKWARD:
        node = (
            node.args[0] if node.args else node.func.value if isinstance(node.func, ast.Attribute) else ast.Constant(0)
        )
    return node.id if isinstance(node, ast.Name) else None


def _parts(batches: ast.For, facts: TrainerFacts) -> dict[str, str]:
    """The script's names for the parts of a batch, with what train_step is given in their place."""
    target = batches.target
    is_counted = isinstance(batches.iter, ast.Call) and called_name(batches.iter) == "enumerate"
    if is_counted and isinstance(target, ast.Tuple) and len(target.elts) == 2:
        target = target.elts[1]
    if not isinstance(target, ast.Tuple | ast.List):
        return {}
    places = {
        path: place for place, (name, path) in enumerate(facts.parts.items()) if list(facts.orders[name])[:1] == [0]
    }
    return {
        one.id: f"given[{places[str(number)]}]"
        for number, one in enumerate(target.elts)
        if isinstance(one, ast.Name) and str(number) in places
    }
