"""Describe one event in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from port.scripts.events import Event
from port.scripts.observation import Observation

MAIN_OPTIONS = ("lr", "momentum", "betas", "weight_decay")


def said_of(event: Event, observation: Observation) -> str:
    """Describe an event; empty if the source line already says it."""
    words = _WORDS.get(event["event"])
    return words(event, observation) if words is not None else ""


def number(value: Any) -> str:
    """Format a number for reading."""
    if isinstance(value, list):
        return f"({', '.join(map(number, value))})"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def short(name: str) -> str:
    """A function's name as written in scripts: "F.nll_loss", "torch.exp", ".pow", "*"."""
    if name.startswith("torch.Tensor."):
        return "." + name.rpartition(".")[2]
    return name.replace("torch.nn.functional.", "F.").replace("torch.nn.modules.", "nn.")


def kinds(value: Any) -> str:
    """The shapes in a call's inputs or outputs."""
    found = _kinds(value)
    return ", ".join(found[:4]) + (" …" if len(found) > 4 else "")


def _kinds(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [value["tensor"]] if "tensor" in value else [one for item in value.values() for one in _kinds(item)]
    return [one for item in value for one in _kinds(item)] if isinstance(value, list) else []


def _batch(event: Event, observation: Observation) -> str:
    return f"a batch: {', '.join(event['parts'].values())}" if event["parts"] else "a batch without tensors"


def _call(event: Event, observation: Observation) -> str:
    inner = event["class"].rpartition(".")[2]
    if not event["has_parameters"]:
        return f"{inner} → {kinds(event['outputs'])}"
    mode = "in training" if event["training"] else "in evaluation mode"
    off = "" if event["grad"] else ", no gradients"
    return f"{event['name']} ({inner}) {mode}{off} → {kinds(event['outputs'])}"


def _function(event: Event, observation: Observation) -> str:
    method = event["name"].rpartition(".")[2]
    if method == "detach":
        return "cut off from gradients"
    return f"{short(event['name'])} → {kinds(event['outputs'])}"


def _backward(event: Event, observation: Observation) -> str:
    return f"gradients of the loss, {number(event['loss'])}"


def _zero_grad(event: Event, observation: Observation) -> str:
    return f"gradients of {event['of']} cleared{' by hand' if event['by_hand'] else ''}"


def _clip(event: Event, observation: Observation) -> str:
    arguments = [*event["arguments"], *event["named"].values()]
    of = ", ".join(event["of"])
    norm = f"; their norm was {number(event['norm'])}" if event["norm"] is not None else ""
    what = "norm" if event["function"] == "clip_grad_norm_" else "value"
    return f"gradients of {of} clipped by {what} to {', '.join(map(str, arguments))}{norm}"


def _update(event: Event, observation: Observation) -> str:
    if event["by_hand"]:
        return f"weights written by hand from their gradients: {short(event['function'])}"
    optimizer = next((one for one in observation.optimizers if one["name"] == event["name"]), None)
    name = optimizer["kind"].rpartition(".")[2] if optimizer else event["name"]
    groups = [group_options(group) for group in event["groups"]]
    closure = ", which calls its closure" if event["closure"] else ""
    return f"update by {name}{closure}: {' | '.join(dict.fromkeys(groups))}"


def group_options(options: dict[str, Any]) -> str:
    """A group's main options: "lr 0.001, weight_decay 0.1"."""
    parts = [f"{key} {number(options[key])}" for key in MAIN_OPTIONS if options.get(key) or key == "lr" in options]
    return ", ".join(parts)


def _schedule(event: Event, observation: Observation) -> str:
    scheduler = next((one for one in observation.schedulers if one["name"] == event["name"]), None)
    name = scheduler["kind"].rpartition(".")[2] if scheduler else event["name"]
    return f"{name}: lr from here on {' | '.join(number(rate) for rate in event['rates'])}"


def _average(event: Event, observation: Observation) -> str:
    return f"{event['name']} averages {event['of']}"


def _written(event: Event, observation: Observation) -> str:
    of = event["parameter"].partition(".")[0]
    sources = sorted({name.partition(".")[0] for name in event["sources"]} - {of})
    source = f" from those of {', '.join(sources)}" if sources else ""
    return f"weights of {of} written{source}: {short(event['function'])}"


def _autocast(event: Event, observation: Observation) -> str:
    return (
        f"autocast to {event['dtype'].removeprefix('torch.')} {'on' if event['enabled'] else 'off'} ({event['device']})"
    )


def _scaler(event: Event, observation: Observation) -> str:
    what = {
        "scale": f"the loss times the scale, {number(event['scale'])}",
        "unscale_": "gradients divided by the scale",
        "step": "update, unless a gradient is not finite",
        "update": f"the scale is adapted; it was {number(event['scale'])}",
    }[event["method"]]
    return what if event["enabled"] else f"GradScaler is off: {event['method']} has no effect of its own"


def _switch(event: Event, observation: Observation) -> str:
    return f"{event['name']} to {'training' if event['training'] else 'evaluation'} mode"


def _number(event: Event, observation: Observation) -> str:
    return f"as a number: {number(event['value'])}" if event["value"] is not None else "leaves torch, as an array"


def _printed(event: Event, observation: Observation) -> str:
    text = " ".join(event["printed"].split())
    return f"printed: {text[:100]}" if any(letter.isalnum() for letter in text) else ""


def _save(event: Event, observation: Observation) -> str:
    what = event["what"]
    said = what if isinstance(what, str) else f"a dict of {', '.join(what)}" if isinstance(what, dict) else "an object"
    return f"saved: {said}"


_WORDS = {
    "batch": _batch,
    "call": _call,
    "function": _function,
    "backward": _backward,
    "zero_grad": _zero_grad,
    "clip": _clip,
    "update": _update,
    "schedule": _schedule,
    "average": _average,
    "written": _written,
    "autocast": _autocast,
    "scaler": _scaler,
    "switch": _switch,
    "number": _number,
    "print": _printed,
    "log": _printed,
    "save": _save,
}


def place_of(where: dict[str, Any] | None) -> str:
    """A location for a message: "train.py:12, `loss.backward()`"."""
    if not where:
        return "no line of the script"
    text = f", `{where['text']}`" if where.get("text") else ""
    return f"{Path(where['file']).name}:{where['line']}{text}"
