"""What a written trainer's folder says of its original: what was trained in it, and on which data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from port.errors import UsageError

FILE = "original.json"
FOLDER = "observed"


@dataclass(frozen=True)
class LinesOfLoop:
    """The lines of a loop over steps at which it draws; with their text, so that they are found in a script that grew.

    Attributes:
        file: the script's name.
        training: line → text, of those that make a batch to train on.
        evaluation: of those that evaluate.
    """

    file: str
    training: dict[int, str]
    evaluation: dict[int, str]

    @classmethod
    def of(cls, file: Path, training: Sequence[int], evaluation: Sequence[int]) -> LinesOfLoop:
        """Those of a script."""
        rows = file.read_text("utf-8").splitlines()
        texts = [{line: rows[line - 1].strip() for line in lines} for lines in (training, evaluation)]
        return cls(file.name, *texts)

    def as_data(self) -> dict[str, Any]:
        """It as JSON has it."""
        return asdict(self)

    @classmethod
    def from_data(cls, told: dict[str, Any]) -> LinesOfLoop:
        """It as it was."""
        lines = [{int(line): text for line, text in told[name].items()} for name in ("training", "evaluation")]
        return cls(told["file"], *lines)

    def found_in(self, rows: Sequence[str]) -> tuple[set[int], set[int]]:
        """The lines in a script as it is now.

        Raises:
            UsageError: one is not there any more, or at several places.
        """
        training, evaluation = (
            {_line_of(text, line, rows) for line, text in lines.items()} for lines in (self.training, self.evaluation)
        )
        return training, evaluation


def _line_of(text: str, line: int, rows: Sequence[str]) -> int:
    places = [number for number, row in enumerate(rows, 1) if row.strip() == text]
    if line in places:
        return line
    if len(places) != 1:
        raise UsageError(
            f"the script has no line `{text}` any more, where it drew: write the folder again by port script"
        )
    return places[0]


@dataclass(frozen=True)
class WatchedOriginal:
    """A script, as far as a run of it is recorded beside the written trainer's.

    Attributes:
        modules: its models and losses, by its own names: what torch_loss.py's class is constructed with.
        parts: where in a batch each input of that class is, in their order.
        training: the name of the loader whose batches are trained on; empty where there is none: the script makes its
            batches itself (``calls``), or trains on all data at once.
        evaluation: that of its evaluation; None where the written trainer evaluates nothing.
        microbatches: of an update.
        averages: model → the average of its weights that is evaluated in its place.
        calls: from a batch to its loss, where the script makes its batches itself.
        precisions: in which both sides are compared.
        makes_inputs: whether the script makes inputs of an update in its loop, so that both sides draw them alike.
        last_optimizer: where several step in turn: the one behind whose step an update is whole. ``modules`` are then
            the models, and there is no class that gives one loss.
        ranks: the processes in which it is trained; each update is then of all their batches together.
        numbers: that its evaluation takes out of torch for each batch, in their order: name, line, text, and whether it
            is the one that is judged. Empty where the loss that is trained is judged.
        loop: the lines of a loop over steps at which it draws, as `LinesOfLoop` has them; None where it has none.
        closure: whether its optimizer evaluates the loss by itself: an update's is then the first.
    """

    modules: tuple[str, ...]
    parts: tuple[str, ...]
    training: str
    evaluation: str | None
    microbatches: int
    averages: dict[str, str] = field(default_factory=dict)
    calls: tuple[str, ...] = ()
    precisions: tuple[str, ...] = ("float64", "float32")
    makes_inputs: bool = False
    last_optimizer: str | None = None
    closure: bool = False
    ranks: int = 1
    numbers: tuple[dict[str, Any], ...] = ()
    loop: dict[str, Any] | None = None

    def write(self, written: Path) -> None:
        """Write it into the folder of a written trainer."""
        path = written / FOLDER / FILE
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=2) + "\n", "utf-8")

    @classmethod
    def read(cls, written: Path) -> WatchedOriginal:
        """That of a written trainer's folder.

        Raises:
            UsageError: it cannot be read.
        """
        path = written / FOLDER / FILE
        try:
            told: dict[str, Any] = json.loads(path.read_text("utf-8"))
            told.update({name: tuple(value) for name, value in told.items() if isinstance(value, list)})
            return cls(**told)
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise UsageError(f"{path} cannot be read ({error}): write the folder again by port script") from error


def is_written(trainer: Path) -> bool:
    """Whether a script is a trainer that `port script` wrote."""
    return (trainer.parent / FOLDER / FILE).is_file()
