"""List what prevents an update from being written in JAX yet, each with the script's line and what to write."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from port.scripts.events import Event
from port.scripts.observation import Observation
from port.scripts.ranks import ProcessRank
from port.scripts.wording import place_of
from port.scripts.writing.capture import LossPath, path_tensors
from port.scripts.writing.rate_by_hand import is_set_around

OWN_STATISTICS = {"BatchNorm1d", "BatchNorm2d", "BatchNorm3d"}
"""Layers that normalise over one process's part of a batch."""
PROPORTIONAL = {"SGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Adagrad", "Adadelta", "Muon"}
"""Optimizers whose update is their rate times something independent of it."""


def reasons_against(observation: Observation, paths: list[LossPath]) -> list[str]:
    """Why it cannot be written; empty if it can."""
    is_in_turn = takes_turns(observation)
    found = [
        *_of_ranks(observation),
        *_of_updates(observation),
        *_of_the_step(observation),
        *_of_paths(paths, observation, are_alike=not is_in_turn),
    ]
    return list(dict.fromkeys([*found, *(_of_turns(observation) if is_in_turn else ())]))


def takes_turns(observation: Observation) -> bool:
    """Whether several optimizers step in turn."""
    return len(_stepping(observation)) > 1


def remarks_beside(observation: Observation) -> list[str]:
    """Remarks on what an update leaves out or does differently."""
    found = []
    for event in _first_of_each(observation.steps, "autocast"):
        if event["enabled"]:
            found.append(
                f"{place_of(event['where'])}: autocast to {event['dtype'].removeprefix('torch.')} is left out, "
                "the update computes in float32 (load(dtype=jnp.bfloat16) has all layers in bfloat16); so it is "
                "compared in float64, where autocast casts nothing"
            )
    found += _of_schedulers(observation)
    if any(event["enabled"] for event in _first_of_each(observation.steps, "scaler")):
        found.append("GradScaler is left out: only gradients in float16 need their loss scaled")
    return found


def _of_schedulers(observation: Observation) -> list[str]:
    """Remarks on schedulers that the script made but did not step while it was watched."""
    events = [*(event for step in observation.steps for event in step), *observation.epoch]
    stepped = {event["name"] for event in events if event["event"] == "schedule"}
    inner = {name for one in observation.schedulers for name in one["schedulers"]}
    return [
        f"{place_of((one['constructed'] or {}).get('where'))}: {one['name']} was not stepped while the script was "
        "watched, and is left out: once the script steps it, the rates differ"
        for one in observation.schedulers
        if one["name"] not in stepped | inner
    ]


def remarks_on_averages(observation: Observation) -> list[str]:
    """Remarks on an average that must be written by hand."""
    return [
        f"{place_of(event['where'])} keeps an average of the weights: optax.incremental_update, or "
        "port.optim.averaged_state"
        for event in _first_of_each(observation.steps, "average", "written")
    ]


def remarks_around(observation: Observation) -> list[str]:
    """Remarks on what to write by hand around an update, if no trainer is written."""
    found = []
    for loader in observation.loaders:
        made = (loader.get("constructed") or {}).get("where")
        found.append(
            f"{place_of(made)} loads {loader['name']}: train_step takes its batches as numpy arrays, channels last: "
            "from the DataLoader as it is, or from grain"
        )
    for event in [*observation.evaluation[:1]]:
        found.append(f"the evaluation at {place_of(event['where'])}: model.eval() and the model that load() gives")
    for event in observation.saved:
        found.append(f"{place_of(event['where'])} saves: orbax.checkpoint with the State")
    for event in observation.printed:
        found.append(f"{place_of(event['where'])} prints: the loss is what train_step returns")
    return found


def rate_is_given(observation: Observation) -> bool:
    """Whether the script sets only the learning rate by hand, one for all groups: train_step then takes it."""
    if _descends_by_hand(observation):
        return True
    by_hand = {one["option"] for one in observation.differences if one["kind"] == "option" and one["set_at"]}
    updates = [e for step in observation.steps for e in step if _is_update(e) and not e["by_hand"]]
    kinds = {one["kind"].rpartition(".")[2] for one in observation.optimizers}
    is_one = all(len({group["lr"] for group in event["groups"]}) == 1 for event in updates)
    is_set = not by_hand and len(kinds) == 1 and any(is_set_around(event["where"]) for event in updates[:1])
    return (by_hand == {"lr"} or is_set) and is_one and kinds <= PROPORTIONAL


def _descends_by_hand(observation: Observation) -> bool:
    """Whether each update is gradient descent written by the script itself, with a rate."""
    updates = [[e for e in step if _is_update(e)] for step in observation.steps]
    return all(len(one) == 1 and one[0]["by_hand"] and one[0]["rate"] is not None for one in updates)


def _of_updates(observation: Observation) -> list[str]:
    found = []
    updates = _stepping(observation)
    by_hand = _first_of_each(observation.steps, "update")
    if "" in updates and not _descends_by_hand(observation):
        where = next(place_of(event["where"]) for event in by_hand if event["by_hand"])
        found.append(
            f"the script updates its weights by hand ({where}), and not by p.add_(p.grad, alpha=-rate): write it with "
            "optax"
        )
    if has_closure(observation):
        found += _of_a_closure(observation, updates)
    return found


def has_closure(observation: Observation) -> bool:
    """Whether an optimizer evaluates the loss itself."""
    return any(event.get("closure") for step in observation.steps for event in step if _is_update(event))


def _of_a_closure(observation: Observation, updates: set[str]) -> list[str]:
    """What is not written around an optimizer with a closure."""
    event = next(e for step in observation.steps for e in step if _is_update(e) and e.get("closure"))
    where, found = place_of(event["where"]), []
    kinds = {one["kind"].rpartition(".")[2] for one in observation.optimizers if one["name"] in updates}
    if kinds != {"LBFGS"}:
        found.append(
            f"{where} passes {', '.join(sorted(kinds))} a closure, which it does not need: call it, and then step()"
        )
    for kind, why in {"clip": "clips gradients", "schedule": "steps a scheduler", "scaler": "scales the loss"}.items():
        found += [
            f"{place_of(one['where'])} {why} with a closure: port.transforms.torch_lbfgs evaluates the loss by itself"
            for one in _first_of_each(observation.steps, kind)
            if kind != "scaler" or one["enabled"]
        ]
    if any("running_mean" in buffer["name"] for model in observation.models for buffer in model["buffers"]):
        found.append(
            f"{where} evaluates a model with running statistics several times an update, and each evaluation moves "
            "them: a model without (GroupNorm, LayerNorm), or in evaluation mode"
        )
    return found


def _stepping(observation: Observation) -> set[str]:
    """The names of the optimizers that step; an empty name if the script updates by hand."""
    return {(e["name"] if not e["by_hand"] else "") for step in observation.steps for e in step if _is_update(e)}


def _of_turns(observation: Observation) -> list[str]:
    """What is not written in an update of several optimizers in turn."""
    found = []
    for event in _first_of_each(observation.steps, "written"):
        found.append(
            f"{place_of(event['where'])} writes weights between the steps of several optimizers: do it to "
            "state.params after train_step, or write the update by hand"
        )
    for event in _first_of_each(observation.steps, "autocast", "scaler"):
        if event["enabled"]:
            found.append(
                f"{place_of(event['where'])}: mixed precision, with several optimizers in turn, is not written: "
                "observe the script in float32"
            )
    if rate_is_given(observation):
        found.append("the rates of several optimizers are set by hand: give each as a schedule to port.optax_source")
    return found


def _of_the_step(observation: Observation) -> list[str]:
    found = []
    scaler = [event for event in observation.steps[0] if event["event"] == "scaler" and event["enabled"]]
    for event in _first_of_each(observation.steps, "clip"):
        if scaler and not any(one["method"] == "unscale_" for one in scaler):
            found.append(
                f"{place_of(event['where'])} clips gradients that GradScaler has scaled: scaler.unscale_(optimizer) "
                "before it, as PyTorch's documentation has it"
            )
    for one in observation.differences:
        if one["kind"] == "option" and one["set_at"] and not rate_is_given(observation):
            found.append(
                f"{one['option']} is set by hand at {', '.join(one['set_at'])}, not one for all groups: give it as a "
                "schedule to port.optax_source(optimizer, schedule=…)"
            )
    return found


def _of_paths(paths: list[LossPath], observation: Observation, *, are_alike: bool) -> list[str]:
    """What prevents the paths from being written; they belong to one loss, or to several."""
    found = []
    if not paths:
        return [
            f"{_first_backward(observation)}: no torch function and no model call in the script's lines leads to this "
            "loss: compute the loss there, from the model's output with torch's functions"
        ]
    for path in paths:
        known = {call.number for one in paths if one.iteration == path.iteration - 1 for call in one.calls}
        for call, tensor in ((one, tensor) for one in path.calls for tensor in path_tensors(one.live)):
            if tensor.origin is not None and tensor.origin[0] in known and "state" not in tensor.description:
                name = tensor.variable or tensor.description.get("carried") or "a tensor"
                how = (
                    "and not in the same way in each: pass it to the model again in each step"
                    if are_alike
                    else "with several optimizers in turn: make it an argument and a result of train_step"
                )
                found.append(f"{place_of(call.where)}: {name} is carried over from the step before, {how}")
    if are_alike:
        found += _where_they_part(paths)
    return found


def _of_ranks(observation: Observation) -> list[str]:
    """What several processes do that differs from one process's update on the global batch."""
    if ProcessRank.of_this_process().size == 1:
        return []
    found = []
    trained = {e["name"].partition(".")[0] for s in observation.steps for e in s if e["event"] == "call" and e["grad"]}
    for model in observation.models:
        if model["name"] not in trained or not any(one["trained"] for one in model["parameters"]):
            continue
        made = place_of((model["constructed"] or {}).get("where"))
        if not any(one.endswith("DistributedDataParallel") for one in model["wrapped"]):
            found.append(
                f"{model['name']} ({made}) is trained in several processes and is in no DistributedDataParallel: how "
                "their gradients come together is not seen. Wrap it, or observe the script in one process"
            )
        if model.get("groups"):
            path, size = next(iter(model["groups"].items()))
            found.append(
                f"{model['name']}.{path} ({made}) is a SyncBatchNorm with a process_group of its own, of {size} of "
                "the processes, and normalises by their part of the batch: leave its process_group out, so that it "
                "normalises by the whole batch, or write the update in jax.shard_map"
            )
        if any(kind.rpartition(".")[2] in OWN_STATISTICS for kind in model["layers"].values()):
            found.append(
                f"{model['name']} ({made}) has a BatchNorm, which normalises by each process's own part of the batch: "
                "torch.nn.SyncBatchNorm.convert_sync_batchnorm(model) before DistributedDataParallel normalises by "
                "the whole batch, as JAX does under jit; or write the update in jax.shard_map"
            )
    if takes_turns(observation) or has_closure(observation):
        found.append(
            "several processes train with several optimizers in turn, or with a closure: observe the script in one "
            "process (without torchrun), where that is written"
        )
    return found


def _where_they_part(paths: Sequence[LossPath]) -> list[str]:
    """The first call that a step makes differently from the first step."""
    first = paths[0].calls
    for path in paths[1:]:
        for one, other in zip_longest(first, path.calls):
            if one is None or other is None or one.name != other.name:
                where = place_of((other or one).where)
                return [
                    f"the path from a batch to its loss is not the same in all watched steps: it diverges at {where}. "
                    "Express the choice as a number that multiplies the loss, or with torch.where, or write an update "
                    "for each"
                ]
    return []


def _first_backward(observation: Observation) -> str:
    events = [event for step in observation.steps for event in step if event["event"] == "backward"]
    return place_of(events[0]["where"] if events else None)


def _is_update(event: Event) -> bool:
    return bool(event["event"] == "update")


def _first_of_each(steps: list[list[Event]], *kinds: str) -> list[Event]:
    found: dict[tuple[str, object], Event] = {}
    for step in steps:
        for event in step:
            if event["event"] in kinds:
                where = event["where"] or {}
                found.setdefault((event["event"], where.get("line")), event)
    return list(found.values())
