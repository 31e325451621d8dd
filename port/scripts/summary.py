"""Summarise a script's parts, one line each (options, models, data, optimizers), with remarks."""

from __future__ import annotations

import json
from typing import Any

from port.scripts.events import Event
from port.scripts.observation import Observation
from port.scripts.wording import group_options, number, place_of

MOST_FROZEN = 4


def option_lines(observation: Observation) -> list[tuple[str, str, str]]:
    """Each option: its flags, its default (and the value passed, if different), its help."""
    lines = []
    for option in observation.options:
        flags = ", ".join(option["flags"]) or option["name"]
        default, passed = option["default"], option["given"]
        value = f"{_plain(default)}" + (f", here {_plain(passed)}" if passed != default else "")
        lines.append((flags, value, option["help"] or ""))
    return lines


def model_lines(observation: Observation) -> list[tuple[Any, str, str]]:
    """Each model with parameters: its line, its constructor call, its description."""
    return [(*_constructed(one), _model(one)) for one in observation.models if one["parameters"] or one["buffers"]]


def loader_lines(observation: Observation) -> list[tuple[Any, str, str]]:
    """Each DataLoader."""
    return [(*_constructed(one), f"{one['name']}: {_loader(one)}") for one in observation.loaders]


def optimizer_lines(observation: Observation) -> list[tuple[Any, str, str]]:
    """Each optimizer with its groups, and each scheduler."""
    lines = []
    for one in observation.optimizers:
        kind = one["kind"].rpartition(".")[2]
        groups = [_group(group) for group in one["groups"]]
        said = groups[0] if len(groups) == 1 else "; ".join(f"group {n}: {said}" for n, said in enumerate(groups))
        lines.append((*_constructed(one), f"{one['name']}: {kind} of {said}"))
    for one in observation.schedulers:
        kind, of = one["kind"].rpartition(".")[2], one["optimizer"] or ", ".join(one["schedulers"])
        lines.append((*_constructed(one), f"{one['name']}: {kind} of {of}"))
    return lines


def seed_lines(observation: Observation) -> list[tuple[Any, str, str]]:
    """Each generator that is seeded."""
    return [(one["where"], one["where"]["text"], f"seed {one['seed']}") for one in observation.seeds if one["where"]]


def initial_lines(observation: Observation) -> list[tuple[Any, str, str]]:
    """Where the script initialises weights itself."""
    found = [one for one in observation.others if one["event"] == "initialised"]
    return [(one["where"], one["where"]["text"], one["function"]) for one in found]


def difference_lines(observation: Observation) -> list[tuple[Any, str, str]]:
    """What differed between the steps."""
    return [(one["where"], one["where"]["text"], _difference(one)) for one in observation.differences]


def remarks(observation: Observation) -> list[str]:
    """What to know before comparing another script with this one."""
    return [*_about_seeds(observation), *_about_losses(observation), *_about_the_watching(observation)]


def _constructed(one: Event) -> tuple[Any, str]:
    made = (one.get("constructed") or {}).get("where")
    return made, made["text"] if made else ""


def _model(model: Event) -> str:
    parameters = model["parameters"]
    size = sum(one["size"] for one in parameters)
    kind = model["class"].rpartition(".")[2]
    wrapped = "".join(f", in {one.rpartition('.')[2]}" for one in model["wrapped"])
    frozen = [one for one in parameters if not one["trained"]]
    said = f"{model['name']}: {kind}{wrapped}, {size:,} parameters in {len(parameters)} tensors"
    if frozen and len(frozen) == len(parameters):
        said += ", all frozen"
    elif frozen:
        names = ", ".join(one["name"] for one in frozen[:MOST_FROZEN])
        more = f" and {len(frozen) - MOST_FROZEN} more" if len(frozen) > MOST_FROZEN else ""
        said += f", {sum(one['size'] for one in frozen):,} of them frozen ({names}{more})"
    return said + (f", on {model['device']}" if model["device"] != "cpu" else "")


def _loader(loader: Event) -> str:
    kind = loader["dataset"].rpartition(".")[2]
    inner = f" of {loader['of'][-1].rpartition('.')[2]}" if loader["of"] else ""
    length = f" ({loader['length']:,})" if loader["length"] is not None else ""
    parts = [f"{kind}{inner}{length}"]
    parts.append(
        f"batches of {loader['batch_size']}" if loader["batch_size"] is not None else "batches of its sampler's"
    )
    sampler = (loader["sampler"] or "").rpartition(".")[2]
    parts.append({"RandomSampler": "shuffled", "SequentialSampler": "in order", "": "no sampler"}.get(sampler, sampler))
    if loader["length"] and loader["batch_size"] and loader["length"] % loader["batch_size"]:
        parts.append("last batch dropped" if loader["drop_last"] else "last batch smaller")
    if loader["workers"]:
        parts.append(f"{loader['workers']} worker{'s' if loader['workers'] > 1 else ''}")
    if "default_collate" not in json.dumps(loader["collate"]):
        parts.append(f"collated by {(loader['collate'] or {}).get('function', 'its own function')}")
    if loader["transform"]:
        parts.append(loader["transform"])
    return ", ".join(parts)


def _group(group: Event) -> str:
    names = [name for name in group["parameters"] if name]
    of = ", ".join(sorted({name.partition(".")[0] for name in names})) or "tensors"
    return f"{len(group['parameters'])} tensors of {of}, {group_options(group['options'])}"


def _difference(one: dict[str, Any]) -> str:
    values = ", ".join("–" if value is None else number(value) for value in one["values"])
    match one["kind"]:
        case "option":
            by = f", set at {', '.join(one['set_at'])}" if one["set_at"] else ""
            return f"{one['option']} of {one['optimizer']}, group {one['group']}: {values}{by}"
        case "number":
            return f"a number in {one['function'].rpartition('.')[2]}: {values}"
        case "shape":
            return f"inputs of {one['name']}: {values}"
    what = {"call": f"{one['name']} called", "print": "printed", "log": "logged", "save": "saved"}.get(
        one["what"], one["what"]
    )
    return f"{what}, how often in each step: {values}"


def _about_seeds(observation: Observation) -> list[str]:
    if any(one["function"] == "torch.manual_seed" for one in observation.seeds):
        return []
    return ["torch's generator is never seeded, so two runs of the script differ. Put torch.manual_seed(0) at its top"]


def _about_losses(observation: Observation) -> list[str]:
    """Numbers in the loss that change from step to step, if a value left torch in these steps."""
    left = [
        event
        for step in observation.steps
        for event in step
        if event["event"] == "number" and event["grad"] and event["parameter"] is None
    ]
    found = []
    for one in observation.differences:
        if one["kind"] == "number" and one["behind_a_model"] and left:
            lines = sorted({place_of(event["where"]) for event in left})
            found.append(
                f"the loss contains a number that changes from step to step ({place_of(one['where'])}), and values "
                f"leave torch at {', '.join(lines)}: if it is computed from one of these, no gradient flows through "
                "it; keep it a tensor (with .detach() if none should)"
            )
    return found


def _about_the_watching(observation: Observation) -> list[str]:
    found = []
    early = sorted({event["name"] for event in observation.others if event["event"] == "ended early"})
    if early:
        found.append(
            f"{' and '.join(early)} ended early here to reach an evaluation soon: ignore the numbers it computed"
        )
    if observation.script.get("stopped"):
        found.append(f"the script was stopped: {observation.script['stopped']}")
    elif not observation.evaluation:
        found.append("the script made no evaluation (no model was called without gradients or in evaluation mode)")
    for name in observation.script.get("left_out", []):
        found.append(f"{name}.safetensors would be larger than a gigabyte, and is left out")
    for event in observation.others:
        if event["event"] == "process":
            found.append(f"it starts another process at {place_of(event['where'])}, which is not watched")
        if event["event"] == "compile":
            found.append(f"torch.compile at {place_of(event['where'])}: watched uncompiled, which is the same model")
        if event["event"] == "gradient hook":
            found.append(f"a hook changes or reads gradients at {place_of(event['where'])}")
    return found


def _plain(value: Any) -> str:
    if isinstance(value, dict | list):
        return json.dumps(value)
    return "–" if value is None or value == "" else str(value)
