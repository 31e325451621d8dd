"""Which DataLoader a script evaluates on, where a written trainer can do it as well; or why it is left to a person."""

from __future__ import annotations

from port.scripts.events import Event
from port.scripts.observation import Observation
from port.scripts.wording import place_of
from port.scripts.writing.averaging import WeightAverage
from port.scripts.writing.loss_source import LossSource


def loader_of(observation: Observation, name: str) -> Event:
    """The loader of a name; of none, one of which nothing is known."""
    return next((one for one in observation.loaders if one["name"] == name), {"name": name, "constructed": None})


def evaluation_of(
    observation: Observation, source: LossSource, average: WeightAverage | None, *, has_more: bool
) -> tuple[Event | None, bool, list[str]]:
    """The loader of the evaluation, whether the weights' average is evaluated, and what of it is not taken over."""
    events = observation.evaluation
    if not events:
        return None, False, []
    where = place_of(events[0]["where"])
    if has_more:
        return None, False, [f"{where}: the evaluation is not written: model.eval(), and what the original makes there"]
    batch = next((event for event in events if event["event"] == "batch"), None)
    if batch is not None and str(loader_of(observation, batch["name"]).get("sampler")).endswith("DistributedSampler"):
        said = (
            "each process evaluates a part of it, and their numbers come together in the original's own way: write it"
        )
        return None, False, [f"{where}: {said}"]
    if batch is None:
        return (
            None,
            False,
            [f"{where}: the evaluation's batches are from no DataLoader: model.eval(), and the loss of arrays"],
        )
    called = {
        event["name"].partition(".")[0] for event in events if event["event"] == "call" and event["has_parameters"]
    }
    is_average = average is not None and called == {average.name}
    others = called - set(source.modules)
    if others and not is_average:
        return (
            None,
            False,
            [f"{where}: the evaluation is of {', '.join(sorted(others))}, which train_step does not train"],
        )
    if not all(told.get("part") in batch["parts"] for told in source.told):
        return (
            None,
            False,
            [f"{where}: the evaluation's batches have other parts than training's: write it with model.eval()"],
        )
    remark = f"{where}: train.py's evaluation is the mean over examples of training's loss"
    lines = list(dict.fromkeys(place_of(event["where"]) for event in events if event["event"] == "number"))
    if lines:
        remark += f"; numbers that the original makes there besides are to be written: {', '.join(lines)}"
    return loader_of(observation, batch["name"]), is_average, [remark]
