"""Find what a script prints while it trains, and where it leaves its loop, from its watched steps."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from port.scripts.events import Event
from port.scripts.observation import Observation
from port.scripts.writing.loop import EpochLoop, loop_over_batches
from port.scripts.writing.loop_lines import counted_by
from port.scripts.writing.own_evaluation import OwnEvaluation
from port.scripts.writing.own_telling import OwnTelling, UpdateLines, WrittenEvaluation, own_telling
from port.scripts.writing.reported_statements import WrittenNames
from port.scripts.writing.shared_function import calling_line
from port.scripts.writing.taken_over import OWN_NAMES
from port.scripts.writing.taken_statements import called_name

BACKWARD = ("backward", "scale")
CHANGES = ("update", "schedule", "scaler", "average", "written")
"""Events of a step that change weights, averages or schedules."""


def telling_of(
    loop: EpochLoop,
    observation: Observation,
    parts: Mapping[str, str],
    orders: Mapping[str, Sequence[int]],
    epoch: str,
    own_evaluation: OwnEvaluation | None,
) -> OwnTelling | None:
    """The script's lines that report on its training, or leave its loop; None if train.py can have none of them.

    Args:
        loop: the script's loop.
        observation: the script's observation.
        parts: train_step's inputs from a batch: input → where in a batch it is.
        orders: the inputs' axis orders in JAX.
        epoch: train.py's variable that counts the epochs.
        own_evaluation: the script's evaluation, if it is copied.
    """
    begun = observation.trained_on()
    batches = loop_over_batches(loop.tree, begun["line"]) if begun is not None else None
    loss = _loss_name(observation)
    if batches is None or loop.statement is None or loss is None:
        return None
    counter = counted_by(batches)
    said = {"training": "training", "evaluation": 'loaders["evaluation"]'}
    known = {
        **{variable: said[what] for what, variable in loop.loaders.items()},
        **({loop.taken.options: "args"} if loop.taken.options else {}),
        **({counter: "batch_number"} if counter else {}),
        loop.epoch: epoch,
    }
    names = WrittenNames(
        loss, known, _parts(batches, parts, orders), OWN_NAMES - {"losses"}
    )  # these belong to several turns
    evaluation = None
    if own_evaluation is not None:
        begun = next(event["where"] for event in observation.evaluation if event["event"] == "batch")
        where = calling_line(loop.tree, begun, loop.loaders["evaluation"])
        lines = own_evaluation.lines if where is begun else ()  # the lines of a function that also trains
        is_each = not loop.evaluates_if and not loop.evaluates_at_end
        shown = tuple(one.strip() for one in (own_evaluation.shown or "").split(",")) if is_each else ()
        evaluation = WrittenEvaluation(where, lines, tuple(one for one in shown if one.isidentifier()))
    update = _update_lines(observation, str(loop.file))
    return own_telling(loop.tree, loop.statement.body, batches, update, names, evaluation, str(loop.file))


def _update_lines(observation: Observation, file: str) -> UpdateLines:
    """The lines of the script that make an update."""
    events = [event for step in observation.steps for event in step]
    computes = [call for event in events if event["event"] == "backward" for call in [event, *event["path"]]]
    changes = [event for event in events if event["event"] in CHANGES]

    def own(those: Sequence[Event]) -> list[Event]:
        return [one["where"] for one in those if one.get("where") and one["where"]["file"] == file]

    return UpdateLines(own(computes), own(changes))


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


def _parts(batches: ast.For, parts: Mapping[str, str], orders: Mapping[str, Sequence[int]]) -> dict[str, str]:
    """The script's names for the parts of a batch, with the corresponding inputs of train_step."""
    target = batches.target
    is_counted = isinstance(batches.iter, ast.Call) and called_name(batches.iter) == "enumerate"
    if is_counted and isinstance(target, ast.Tuple) and len(target.elts) == 2:
        target = target.elts[1]
    if not isinstance(target, ast.Tuple | ast.List):
        return {}
    places = {path: place for place, (name, path) in enumerate(parts.items()) if list(orders[name])[:1] == [0]}
    return {
        one.id: f"batch_arrays[{places[str(number)]}]"
        for number, one in enumerate(target.elts)
        if isinstance(one, ast.Name) and str(number) in places
    }
