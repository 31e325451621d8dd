"""A script and the trainer written from it, as `port train` starts them: both unchanged, in each precision."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from port.errors import UsageError
from port.scripts.observation import Observation
from port.scripts.watched_original import FOLDER, WatchedOriginal
from port.scripts.writing.trainer_source import own_flags
from port.training import Outcome, Pairing, Trainer, check_has_port, check_may_run

ENTRY = Path(__file__).with_name("recording") / "__main__.py"
UPDATES = 200
"""How many updates are compared by default."""


@dataclass(frozen=True)
class JudgedPair:
    """An original script and the trainer written from it.

    Attributes:
        original: the script, as its user runs it: a file, or a module name if it was watched as a module.
        trainer: the ``train.py`` that `port script` wrote.
        arguments: for both; None uses the arguments that the script was watched with.
        updates: how many are compared, at most.
        precision_is_given: whether the user asked for these precisions explicitly.
        torch_python: the interpreter that runs the original.
        jax_python: the interpreter that runs the trainer.
    """

    original: Path
    trainer: Path
    arguments: tuple[str, ...] | None = None
    updates: int = UPDATES
    precision_is_given: bool = False
    torch_python: str = field(default=sys.executable)
    jax_python: str = field(default=sys.executable)

    def pairings(self, folder: Path, precisions: Sequence[str], time_limit: float | None) -> list[Pairing]:
        """The comparisons to run, the proof first.

        Args:
            folder: the run's folder.
            precisions: "float64", "float32".
            time_limit: the longest that a side may take between two lines of its record, in seconds.

        Raises:
            UsageError: one of the two cannot be started with these settings.
        """
        check_may_run(self.torch_python)  # the original is recorded by this port, the trainer by its environment's
        check_has_port(self.jax_python)
        written = self.trainer.resolve().parent
        watched = WatchedOriginal.read(written)
        strange = [precision for precision in precisions if precision not in watched.precisions]
        if strange and self.precision_is_given:
            raise UsageError(
                f"the original computes under autocast, which {self.trainer} does not, so the two are compared only "
                f"in {' and '.join(watched.precisions)}; got --precision {strange[0]}"
            )
        seen = Observation.read(written / FOLDER)
        home = Path(seen.script["folder"])
        place = home if home.is_dir() else self.original.resolve().parent
        arguments = tuple(seen.script["arguments"]) if self.arguments is None else self.arguments
        flags = own_flags([flag for option in seen.options for flag in option["flags"]])
        found = []
        for precision in [one for one in precisions if one in watched.precisions]:
            here = (folder / precision).resolve()
            torch = (
                self.torch_python,
                *seen.launcher,
                str(ENTRY),
                str(written),
                str(self.updates),
                precision,
            )
            jax = (self.jax_python, str(self.trainer.resolve()), *arguments)
            own_options = [flags["record"], str(here / "jax.jsonl"), flags["updates"], str(self.updates)]
            own_options += [flags["checkpoints"], str(here / "checkpoints")]
            own_options += [flags["float64"]] if precision == "float64" else []
            found.append(
                Pairing(
                    precision,
                    Trainer((*torch, *self._target(seen, place), *arguments), folder=place),
                    Trainer((*jax, *own_options), folder=place),
                    controls=None,
                    time_limit=time_limit,
                )
            )
        return found

    def _target(self, seen: Observation, place: Path) -> list[str]:
        if seen.script["is_module"] and str(self.original) == seen.script["target"]:
            return ["-m", seen.script["target"]]
        if not self.original.is_file():
            raise UsageError(f"there is no script {self.original}")
        source = self.original.read_text("utf-8", errors="replace")
        if "port.Recorder(" in source:
            raise UsageError(
                f"{self.original} records itself (port.Recorder), but {self.trainer} was written from a script that "
                "does not: port records such a script itself, so remove the recorder, or pass a JAX script of yours"
            )
        return [os.path.relpath(self.original.resolve(), place)]

    def remarks(self, outcomes: Sequence[Outcome]) -> list[str]:
        """Further remarks on the verdict, for the user."""
        made = max((len(outcome.torch.steps) for outcome in outcomes), default=self.updates)
        if made >= self.updates:
            return []
        return [
            f"the original makes only {made} of the {self.updates} updates to compare with these arguments: "
            "pass more epochs (after --) for more"
        ]
