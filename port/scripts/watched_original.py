"""What a written trainer's folder records about its original: what it trains, and on which data."""

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
    """The lines of a loop over steps that draw; stored with their text, to find them again in an edited script.

    Attributes:
        file: the script's name.
        training: line → text, of the lines that make a batch to train on.
        evaluation: line → text, of the lines that evaluate.
    """

    file: str
    training: dict[int, str]
    evaluation: dict[int, str]

    @classmethod
    def of(cls, file: Path, training: Sequence[int], evaluation: Sequence[int]) -> LinesOfLoop:
        """Read the lines' text from a script."""
        rows = file.read_text("utf-8").splitlines()
        texts = [{line: rows[line - 1].strip() for line in lines} for lines in (training, evaluation)]
        return cls(file.name, *texts)

    def as_data(self) -> dict[str, Any]:
        """The lines as JSON data."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> LinesOfLoop:
        """Rebuild the lines from `as_data`'s result."""
        lines = [{int(line): text for line, text in data[name].items()} for name in ("training", "evaluation")]
        return cls(data["file"], *lines)

    def found_in(self, rows: Sequence[str]) -> tuple[set[int], set[int]]:
        """Find the lines in the script's current text.

        Raises:
            UsageError: one is no longer there, or occurs several times.
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
            f"the script no longer has the line `{text}`, at which it drew: write the folder again with port script"
        )
    return places[0]


@dataclass(frozen=True)
class WatchedOriginal:
    """What is needed to record a run of the original script for comparison with the written trainer.

    Attributes:
        modules: its models and losses, by the script's names: the constructor arguments of torch_loss.py's class.
        parts: where in a batch each input of that class is, in order.
        training: the name of the training loader; empty if there is none: the script makes its batches itself
            (``calls``), or trains on all data at once.
        evaluation: the name of the evaluation loader; None if the written trainer evaluates nothing.
        microbatches: the number of microbatches per update.
        averages: model → the average of its weights that is evaluated in its place.
        calls: the calls from a batch to its loss, if the script makes its batches itself.
        precisions: the precisions in which both sides are compared.
        makes_inputs: whether the script makes inputs of an update in its loop, so that both sides must draw them alike.
        last_optimizer: if several step in turn, the one whose step completes an update. ``modules`` are then the
            models, and no class computes one loss.
        ranks: the number of processes that train; each update then uses all their batches together.
        numbers: the values that its evaluation takes out of torch for each batch, in order: name, line, text, and
            whether it is the compared one. Empty if the training loss is compared.
        loop: the lines of a loop over steps that draw, as `LinesOfLoop.as_data`; None if there is none.
        closure: whether its optimizer evaluates the loss itself: an update's loss is then the first one.
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
        """Read it from a written trainer's folder.

        Raises:
            UsageError: it cannot be read.
        """
        path = written / FOLDER / FILE
        try:
            fields: dict[str, Any] = json.loads(path.read_text("utf-8"))
            fields.update({name: tuple(value) for name, value in fields.items() if isinstance(value, list)})
            return cls(**fields)
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise UsageError(f"{path} cannot be read ({error}): write the folder again with port script") from error


def is_written(trainer: Path) -> bool:
    """Whether a script is a trainer that `port script` wrote."""
    return (trainer.parent / FOLDER / FILE).is_file()
