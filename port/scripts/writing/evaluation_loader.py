"""Find the DataLoader that a script evaluates on, if a written trainer can too; or why that is left to the user."""

from __future__ import annotations

from port.scripts.events import Event
from port.scripts.observation import Observation
from port.scripts.wording import place_of
from port.scripts.writing.averaging import WeightAverage
from port.scripts.writing.loss_source import LossSource


def loader_of(observation: Observation, name: str) -> Event:
    """The loader with a name; if there is none, an event with unknown properties."""
    return next((one for one in observation.loaders if one["name"] == name), {"name": name, "constructed": None})


def evaluation_of(
    observation: Observation, source: LossSource, average: WeightAverage | None, *, has_more: bool
) -> tuple[Event | None, bool, list[str]]:
    """The evaluation's loader, whether the weights' average is evaluated, and remarks on what is left out."""
    events = observation.evaluation
    if not events:
        return None, False, []
    where = place_of(events[0]["where"])
    if has_more:
        return None, False, [f"{where}: the evaluation is not written: model.eval(), and what the original makes there"]
    batch = next((event for event in events if event["event"] == "batch"), None)
    if batch is not None and str(loader_of(observation, batch["name"]).get("sampler")).endswith("DistributedSampler"):
        said = "each process evaluates a part of it, and the original combines their numbers in its own way: write it"
        return None, False, [f"{where}: {said}"]
    if batch is None:
        return (
            None,
            False,
            [f"{where}: the evaluation's batches come from no DataLoader: use model.eval(), and the loss of arrays"],
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
    if not all(description.get("part") in batch["parts"] for description in source.descriptions):
        return (
            None,
            False,
            [f"{where}: the evaluation's batches have other parts than training's: write it with model.eval()"],
        )
    remark = f"{where}: train.py's evaluation is the mean over examples of training's loss"
    lines = list(dict.fromkeys(place_of(event["where"]) for event in events if event["event"] == "number"))
    if lines:
        remark += f"; write the other numbers that the original computes there yourself: {', '.join(lines)}"
    return loader_of(observation, batch["name"]), is_average, [remark]
