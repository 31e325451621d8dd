"""What keeps an update from being written in JAX yet: each with the script's line and what to write."""

from __future__ import annotations

from port.scripts.events import Event
from port.scripts.observation import Observation
from port.scripts.wording import place_of
from port.scripts.writing.capture import LossPath, given_in

PROPORTIONAL = {"SGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Adagrad", "Adadelta", "Muon"}
"""Optimizers whose update is their rate times what does not depend on it."""


def reasons_against(observation: Observation, paths: list[LossPath]) -> list[str]:
    """Why it cannot be written; none where it can."""
    found = [*_of_updates(observation), *_of_the_step(observation), *_of_paths(paths)]
    return list(dict.fromkeys(found))


def remarks_beside(observation: Observation) -> list[str]:
    """What an update does besides, and otherwise."""
    found = []
    for event in _first_of_each(observation.steps, "autocast"):
        if event["enabled"]:
            found.append(
                f"{place_of(event['where'])}: autocast to {event['dtype'].removeprefix('torch.')} is not taken over, "
                "the update computes in float32 (load(dtype=jnp.bfloat16) has all layers in bfloat16); so it is "
                "compared in float64, where autocast casts nothing"
            )
    if any(event["enabled"] for event in _first_of_each(observation.steps, "scaler")):
        found.append("GradScaler is left out: only gradients in float16 need their loss scaled")
    return found


def remarks_on_averages(observation: Observation) -> list[str]:
    """An average that is written by hand."""
    return [
        f"{place_of(event['where'])} keeps an average of the weights: optax.incremental_update, or "
        "port.optim.averaged_state"
        for event in _first_of_each(observation.steps, "average", "written")
    ]


def remarks_around(observation: Observation) -> list[str]:
    """What is written by hand around an update, where no trainer is written."""
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
    """Whether the script sets the learning rate by hand, one for all groups, and nothing else: train_step takes it."""
    if _descends_by_hand(observation):
        return True
    by_hand = {one["option"] for one in observation.differences if one["kind"] == "option" and one["set_at"]}
    updates = [e for step in observation.steps for e in step if _is_update(e) and not e["by_hand"]]
    kinds = {one["kind"].rpartition(".")[2] for one in observation.optimizers}
    is_one = all(len({group["lr"] for group in event["groups"]}) == 1 for event in updates)
    return by_hand == {"lr"} and is_one and kinds <= PROPORTIONAL


def _descends_by_hand(observation: Observation) -> bool:
    """Whether each update is gradient descent that the script writes itself, with a rate."""
    updates = [[e for e in step if _is_update(e)] for step in observation.steps]
    return all(len(one) == 1 and one[0]["by_hand"] and one[0]["rate"] is not None for one in updates)


def _of_updates(observation: Observation) -> list[str]:
    found = []
    updates = {(e["name"] if not e["by_hand"] else "") for step in observation.steps for e in step if _is_update(e)}
    by_hand = _first_of_each(observation.steps, "update")
    if "" in updates and not _descends_by_hand(observation):
        where = next(place_of(event["where"]) for event in by_hand if event["by_hand"])
        found.append(
            f"the script updates its weights by hand ({where}), otherwise than by p.add_(p.grad, alpha=-rate): say it "
            "with optax"
        )
    if len(updates) > 1:
        names = ", ".join(sorted(updates))
        found.append(f"{len(updates)} optimizers step in turn ({names}), and one update is written so far")
    for event in by_hand:
        if event.get("closure") and not event["by_hand"]:
            found.append(
                f"{place_of(event['where'])} gives its optimizer a closure: optax.lbfgs takes a value function"
            )
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


def _of_paths(paths: list[LossPath]) -> list[str]:
    found = []
    if not paths:
        return ["no loss was seen whole"]
    for given in [one for call in paths[0].calls for one in given_in(call.live)]:
        if "carried" in given.told:
            found.append(
                f"{given.variable or 'a tensor'} is carried over from the step before: a state of train_step's"
            )
    lengths = {tuple(call.name for call in path.calls) for path in paths}
    if len(lengths) > 1:
        found.append("the path from a batch to its loss is not the same in all watched steps")
    return found


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
