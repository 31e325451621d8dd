"""Write evaluation.py, if a script evaluates in its own function by numbers of each batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import port
from port.errors import UsageError
from port.scripts.observation import Observation
from port.scripts.writing.capture import Copies
from port.scripts.writing.evaluated_numbers import EvaluatedNumbers
from port.scripts.writing.loop import EpochLoop
from port.scripts.writing.loss_source import LossSource
from port.scripts.writing.lower_precision import precision_of
from port.scripts.writing.numbers_source import (
    FILE,
    WRITTEN,
    check_numbers,
    evaluation_file,
    follow_weights,
    numbers_module,
)
from port.scripts.writing.own_evaluation import OwnEvaluation, own_evaluation
from port.translation.codegen.emit import formatted


@dataclass(frozen=True)
class EvaluationWriter:
    """Writes the evaluation of a script whose update is written.

    Attributes:
        folder: where train_step.py is.
        script: the script's name.
        observation: the script's observation.
        seen: the numbers of its first evaluation.
        copies: copies of its models.
        source: the source of the path from a batch to its loss.
        orders: the axis order of each input in JAX.
    """

    folder: Path
    script: str
    observation: Observation
    seen: EvaluatedNumbers
    copies: Copies
    source: LossSource
    orders: Mapping[str, Sequence[int]]

    def write(self, loop: EpochLoop, epoch: str) -> OwnEvaluation:
        """Write it, and return what train.py needs to know about it.

        Args:
            loop: the script's loop.
            epoch: its variable that counts epochs.

        Raises:
            UsageError: it is too complex; the message says why.
        """
        batches = self.seen.batches
        if not batches or not batches[0].taken or any(len(one.taken) != len(batches[0].taken) for one in batches):
            raise UsageError("it takes no numbers out of torch batch by batch")
        begun = next(event["where"] for event in self.observation.evaluation if event["event"] == "batch")
        loader = loop.loaders["evaluation"]
        evaluation = own_evaluation(
            loop.tree, begun, batches[0].taken, loader, loop.taken.options, epoch, self.copies.models
        )
        module, construct, inputs = numbers_module(self.seen, self.source, self.copies, self.script, self.folder / FILE)
        written = self.folder / WRITTEN
        try:
            judged = next((place for place, has in enumerate(follow_weights(module, inputs)) if has), None)
            if precision_of(self.observation) is None:
                check_numbers(module, batches[0], inputs)
            translation = port.translate(module, tuple(inputs.values()), name="evaluation", construct=construct)
            if translation.unwritten or translation.draws.get(False, ()):
                raise UsageError("a part of its model has no pair, or draws random numbers")
            model = (self.folder / "model.py").read_text("utf-8")
            text = evaluation_file(translation, self.source, model, evaluation, self.script, self.orders)
            written.write_text(formatted(text), "utf-8")
        except BaseException:
            (self.folder / FILE).unlink()
            raise
        return replace(evaluation, judged=judged)

    def numbers(self, evaluation: OwnEvaluation) -> tuple[dict[str, Any], ...]:
        """The numbers, in `WatchedOriginal`'s form."""
        taken = self.seen.batches[0].taken
        return tuple(
            {"name": name, "line": one.where["line"], "text": one.where["text"], "judged": place == evaluation.judged}
            for place, (name, one) in enumerate(zip(evaluation.names, taken, strict=True))
        )
