"""Calls of a model in training mode for no loss, such as drawing a GAN's samples: they change its statistics.

PyTorch's batch norm updates its running statistics with every call in training mode. Training losses do not read
them, but sampling in evaluation mode does, and they are saved: so such a call is written at the same point.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from port.scripts.events import Event
from port.scripts.observation import Observation
from port.scripts.wording import place_of
from port.scripts.writing.loop import loop_over_batches
from port.scripts.writing.loop_lines import counted_by
from port.scripts.writing.renaming import renamed
from port.scripts.writing.taken_statements import holds, names_loaded

INPUTS = "inputs.safetensors"
KEPT = "fixed.safetensors"
"""The file next to train.py with tensors that the original makes once, before its loop."""


@dataclass(frozen=True)
class Sampling:
    """A call of a model with a tensor from before the loop.

    Attributes:
        model: the script's name for it.
        tensor: the variable that holds the input.
        key: the tensor's key among the watched inputs.
        when: an expression of ``batch_number``, the epoch and ``args``; None is always.
        where: the script's line, for messages.
    """

    model: str
    tensor: str
    key: str
    when: str | None
    where: str


def samplings(
    observation: Observation, models: Mapping[str, Any], *, epoch: str, options: str | None
) -> tuple[list[Sampling], list[str]]:
    """The calls that are written, and remarks on the others.

    Args:
        observation: the script's observation.
        models: its modules, by name.
        epoch: the variable that counts the epochs.
        options: the variable that holds its options.
    """
    found: dict[str, Sampling] = {}
    remarks: dict[str, None] = {}
    for number, event in _beside(observation, models):
        where = place_of(event["where"])
        if where in found:
            continue
        made = _sampling(number, event, epoch, options)
        if made is None:
            remarks[
                f"{where} calls {event['name']} in training mode for no loss, which updates its running statistics "
                "there but not here; to do it here: nnx.merge, the call, and nnx.state, with train_step's state"
            ] = None
        else:
            found[where] = made
    return list(found.values()), list(remarks)


def _beside(observation: Observation, models: Mapping[str, Any]) -> Sequence[tuple[int, Event]]:
    """The calls that update statistics for no loss, each with its step."""
    steps = observation.steps
    used = {call["number"] for step in steps for e in step if e["event"] == "backward" for call in e["path"]}
    found = []
    for step in steps:
        for event in step:
            is_model = event["event"] == "call" and event["has_parameters"] and event["training"]
            if is_model and event["number"] not in used and _has_statistics(models, event["name"]):
                found.append((int(event["iteration"]), event))
    return found


def _has_statistics(models: Mapping[str, Any], name: str) -> bool:
    model = models.get(name.partition(".")[0])
    return model is not None and any(getattr(one, "running_mean", None) is not None for one in model.modules())


def _sampling(number: int, event: Event, epoch: str, options: str | None) -> Sampling | None:
    positional = event["arguments"]["positional"]
    if event["arguments"]["named"] or len(positional) != 1 or not isinstance(positional[0], dict):
        return None
    variable = positional[0].get("variable")
    if not variable or not str(variable).isidentifier() or len(event["given"]) != 1 or "." in event["name"]:
        return None
    is_said, when = _condition(event["where"], epoch, options)
    if not is_said:
        return None
    key = f"{number}.{event['number']}.{event['name']}.{event['given'][0]}"
    return Sampling(event["name"], variable, key, when, place_of(event["where"]))


def _condition(where: Event, epoch: str, options: str | None) -> tuple[bool, str | None]:
    """Whether the condition of a line can be written, and the condition: a test on batch number, epoch and options."""
    tree = ast.parse(Path(where["file"]).read_text("utf-8"))
    loop = loop_over_batches(tree, where["line"])
    if loop is None:
        return False, None
    inside = [one for one in loop.body if holds(one, where["line"])]
    match inside:
        case [ast.Assign() | ast.Expr()]:
            return True, None
        case [ast.If(test=test, body=body, orelse=[])] if any(_is_plainly_at(one, where) for one in body):
            counter = counted_by(loop)
            if names_loaded(test) <= {*([counter] if counter else []), epoch, *([options] if options else [])}:
                names = {counter: "batch_number", options: "args"}
                return True, renamed(test, {old: new for old, new in names.items() if old is not None})
    return False, None


def _is_plainly_at(statement: ast.stmt, where: Event) -> bool:
    return isinstance(statement, ast.Assign | ast.Expr) and holds(statement, where["line"])


MODULE = Template('''\
"""Calls of $script in training mode, for no loss, on tensors from before its loop: they update running statistics."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from string import Template
from typing import Any

import jax
from flax import nnx
from safetensors.numpy import load_file

from train_step import State, joined, only

__all__ = ["fixed", "sampled"]


def fixed(dtype: Any) -> dict[str, Any]:
    """The tensors that the original drew when it was watched."""
    return {name: one.astype(dtype) for name, one in load_file(Path(__file__).with_name("$file")).items()}


def sampled(
    graphdefs: Any, state: State, inputs: dict[str, Any], *, batch_number: int, $epoch: int, args: Any
) -> State:
    """The state after the calls that the original makes after an update."""
$body
    return state

$functions''')
FUNCTION = Template('''
@partial(jax.jit, static_argnums=0, donate_argnums=1)
def sample_$model(graphdefs: Any, state: State, inputs: jax.Array) -> tuple[State, jax.Array]:
    """Call $model in training mode; returns the state with updated running statistics, and the output."""
    params, rest = only(state.params, $models), only(state.rest, $models)
    model = nnx.merge(graphdefs[$turn], params, rest, copy=True)
    made = model.$model(inputs)
    moved = only(nnx.state(model, nnx.Not(nnx.Param)), $own)
    return state._replace(rest=joined(state.rest, moved)), made

''')


def samples_source(
    found: Sequence[Sampling], script: str, epoch: str, turns: Mapping[str, int], models: Sequence[Sequence[str]]
) -> str:
    """The unformatted source of samples.py.

    Args:
        found: the calls to write.
        script: the script's name.
        epoch: the variable that counts the epochs.
        turns: model → the turn that has it, counted from 0.
        models: the models of each turn.
    """
    body = []
    for one in found:
        call = f'state, _ = sample_{one.model}(graphdefs, state, inputs["{one.tensor}"])'
        body += [f"    # {one.where}", *([f"    if {one.when}:", f"        {call}"] if one.when else [f"    {call}"])]
    functions = [
        FUNCTION.substitute(model=name, models=repr(tuple(models[turns[name]])), turn=turns[name], own=repr((name,)))
        for name in dict.fromkeys(one.model for one in found)
    ]
    return MODULE.substitute(script=script, file=KEPT, epoch=epoch, body="\n".join(body), functions="".join(functions))
