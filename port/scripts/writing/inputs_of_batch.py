"""Find where in a loader's batch each input of train_step is, and which inputs the script's lines make from it."""

from __future__ import annotations

from collections.abc import Mapping

from port.errors import UsageError
from port.scripts.events import Event
from port.scripts.observation import Observation
from port.scripts.observing.graph import Computation
from port.scripts.wording import place_of
from port.scripts.writing.loss_source import LossSource


def parts_of_batch(
    source: LossSource, observation: Observation, calls: Mapping[int, Computation]
) -> tuple[dict[str, str], dict[str, Event]]:
    """Where in a batch each input of train_step is, and the calls that make the others, in the script's order.

    Raises:
        UsageError: one is made in another way, or from another loader's batch; the message says what to write.
    """
    parts: dict[str, str] = {}
    made: dict[str, Event] = {}
    for name, description in zip(source.inputs, source.descriptions, strict=True):
        call = calls.get(description.get("call", -1))
        said = str(description.get("expression"))
        if description.get("number") and description["expression"] is not None:
            made[name] = {"expression": said, "where": None, "number": 0}
        elif call is not None and said.isidentifier() and "batch" not in description:
            made[name] = {"expression": said, "where": call.where, "number": call.number}
        elif "batch" in description:
            parts[name] = description["part"]
        elif call is not None and call.where is not None and "output" not in description:
            made[name] = {"where": call.where, "number": call.number}
        else:
            raise UsageError(_not_of_a_batch(name, observation))
    if not parts:
        raise UsageError(_not_of_a_batch(next(iter(made)), observation))
    if len({description["batch"] for description in source.descriptions if "batch" in description}) > 1:
        raise UsageError("an update takes batches of several loaders: write the loop over both")
    return parts, dict(sorted(made.items(), key=lambda item: int(item[1]["number"])))


def _not_of_a_batch(name: str, observation: Observation) -> str:
    begun = place_of(observation.steps[0][0]["where"])
    return (
        f"{name}, an input of train_step, is not part of a DataLoader's batch but made in the loop (which begins at "
        f"{begun}): write the code that makes it, and call train_step with arrays"
    )


def check_microbatches(training: Event, count: int) -> None:
    """Check that every update consists of complete microbatches of equal size.

    Raises:
        UsageError: some are left over at an epoch's end.
    """
    if count == 1:
        return
    batches, examples, size = training["batches"], training["length"], training["batch_size"]
    is_whole = training["drop_last"] or (examples is not None and size and examples % size == 0)
    if not batches or batches % count or not is_whole:
        raise UsageError(
            f"an update uses {count} batches of {training['name']}, which has {batches} in an epoch"
            f"{'' if is_whole else ', the last of them smaller'}: the remainder at its end goes into the next epoch's "
            "gradients, or is lost. Drop it (drop_last=True, a divisible length), or write the loop around train_step"
        )
