"""Run a written trainer under ``--record``: its original's weights, data and dropout, and a record."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import count
from pathlib import Path
from typing import Any

import jax
import torch

from port.errors import PortError
from port.records import Recorder
from port.scripts.own_draws import DROPOUT_SEED, OwnDraws, draws_of_batch, draws_of_update
from port.scripts.recording.evaluation_sums import EvaluationSums
from port.scripts.recording.in_float64 import in_float64
from port.scripts.watched_original import WatchedOriginal
from port.weights import initial_weights, load, save_final_weights
from port.weights.shared import FINAL_VARIABLE, INITIAL_VARIABLE

WAIT_SECONDS = 3600.0
"""How long to wait for the original's weights; if the original fails first, the launcher ends both sides."""


class DrawnLoader:
    """A loader iterated with other draws; all other attributes are the loader's."""

    def __init__(self, loader: Any, draw: Callable[[], Iterator[Any]]) -> None:
        self._loader, self._draw = loader, draw

    def __iter__(self) -> Iterator[Any]:
        return self._draw()

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class RecordedRun:
    """A recorded run of a written trainer.

    Attributes:
        is_over: whether all requested updates have been made.

    Args:
        record: where the record goes; `port train` overrides it.
        mapping: the written model's mapping.
        steps: the number of updates after which it is over; None is no limit.
        microbatches: the number of microbatches per update.
    """

    def __init__(self, record: Path, mapping: Path, *, steps: int | None = None, microbatches: int = 1) -> None:
        self._path, self._mapping = record, mapping
        self._steps, self._microbatches = steps, microbatches
        self._recorder: Recorder | None = None
        self._sums: EvaluationSums | None = None
        self._evaluated_at = -1  # the last step after which it was
        self._made = 0  # updates
        self.is_over = False

    def begin(self, model: Any) -> None:
        """Load the original's initial weights into a model: those of this run, if `port train` started both."""
        if INITIAL_VARIABLE in os.environ:
            load(model, initial_weights(wait=WAIT_SECONDS), rename=self._mapping)

    @contextmanager
    def recording(self, step: int) -> Iterator[None]:
        """The context of training from ``step`` on."""
        try:
            self._evaluated_at = last_evaluation(self._path, step) if step else -1
            recorder = Recorder(self._path, resume_at=step or None, total_steps=self._steps)
        except PortError as error:
            sys.exit(f"port: {error}")
        with recorder:
            self._recorder = recorder
            yield

    def batches(self, loader: Any, step: int) -> Iterator[Any]:
        """The batches of a pass for the updates from ``step`` on, up to the last requested one.

        A pass may skip batches: updates are counted, not batches.
        """
        self._made = step
        for batch in self.drawn(loader, step):
            if self._made == self._steps:
                self.is_over = True
                return
            yield batch

    def stream(self, loader: Any) -> Iterator[Any]:
        """The batches of a loop over steps, each drawn with its own generators, up to the last requested update."""
        iterator = iter(loader)
        for number in count():
            if number // self._microbatches == self._steps:
                self.is_over = True
                return
            with _in_own_precision(), draws_of_batch(number)():
                try:
                    batch = next(iterator)
                except StopIteration:
                    return
            yield batch

    def drawn(self, loader: Any, step: int) -> Iterator[Any]:
        """The batches of a pass that begins after ``step`` updates."""
        if (loaders := getattr(loader, "loaders", None)) is not None:
            # With several processes, each draws with its own generators.
            yield from map(loader.joined, zip(*(self.drawn(one, step) for one in loaders), strict=True))
            return
        draws = OwnDraws(loader, step)
        with draws():
            iterator = iter(loader)
        precision = _in_own_precision if hasattr(loader, "make") else nullcontext  # batches of the script's own lines
        while True:
            with precision(), draws():
                try:
                    batch = next(iterator)
                except StopIteration:
                    return
            yield batch

    def made(self, inputs: Callable[[Any], Any], batch: Any, step: int) -> Any:
        """The result of the original's lines for a batch, with the same draws and in the same precision as there."""
        from torch.utils import _pytree as pytree

        if jax.config.jax_enable_x64:  # type: ignore[attr-defined]
            batch = pytree.tree_map_only(torch.Tensor, in_float64, batch)
        with _in_own_precision(), draws_of_update(step)():
            return inputs(batch)

    def masks(self, step: int) -> jax.Array:
        """The key of a step's dropout, or its microbatches' keys."""
        key = jax.random.fold_in(jax.random.key(DROPOUT_SEED), step)
        if self._microbatches == 1:
            return key
        return jax.vmap(lambda number: jax.random.fold_in(key, number))(jax.numpy.arange(self._microbatches))

    def record(self, step: int, *, loss: Any) -> None:
        """Record an update."""
        assert self._recorder is not None
        self._recorder(step, loss=loss)
        self._made = step + 1

    def evaluation(self, step: int, *, loss: float) -> None:
        """Record an evaluation after ``step`` updates; one that a resumed run repeats is not written again."""
        assert self._recorder is not None
        if step - 1 > self._evaluated_at:
            self._recorder.evaluation(step - 1, loss=loss)
            self._evaluated_at = step - 1

    def evaluating(
        self,
        loader: Any,
        measure: Callable[[Any], Sequence[Any]],
        step: int,
        loss: Callable[[Any], tuple[float, int]] | None = None,
    ) -> tuple[DrawnLoader, Callable[[Any], Sequence[Any]]]:
        """An evaluation's loader with the original's draws, and a function that measures a batch and keeps its numbers.

        Args:
            loader: the evaluation's loader.
            measure: returns the numbers of a batch.
            step: the number of updates made.
            loss: returns a batch's loss and number of examples, if none of the numbers is a loss.
        """
        sums = self._sums = EvaluationSums(WatchedOriginal.read(self._mapping.parent).numbers)

        def measured(batch: Any) -> Sequence[Any]:
            numbers = measure(batch)
            for place, one in enumerate(numbers):
                sums.add(place, one)
            if loss is not None:
                sums.add_loss(*loss(batch))
            return numbers

        return DrawnLoader(loader, lambda: self.drawn(loader, step)), measured

    def evaluated(self, step: int) -> None:
        """Record the evaluation made after ``step`` updates."""
        assert self._recorder is not None and self._sums is not None
        if (said := self._sums.said()) is not None:
            self._recorder.evaluation(step - 1, **said)

    def flush(self) -> None:
        """Flush the record to disk: a checkpoint is saved next."""
        assert self._recorder is not None
        self._recorder.flush()

    def end(self, model: Any) -> None:
        """End the training: leave the weights for the verdict, if `port train` started both."""
        if FINAL_VARIABLE in os.environ:
            save_final_weights(model, mapping=self._mapping)


def last_evaluation(record: Path, before: int) -> int:
    """The last step before ``before`` after which a record has an evaluation; -1 if there is none."""
    if not record.is_file():
        return -1
    lines = [line for line in record.read_text("utf-8").splitlines() if '"evaluation"' in line and line.endswith("}")]
    steps = [int(entry["step"]) for entry in map(json.loads, lines) if entry.get("kind") == "evaluation"]
    return max((step for step in steps if step < before), default=-1)


@contextmanager
def _in_own_precision() -> Iterator[None]:
    """Within this context the original's lines run in its precision: the default dtype is float64 in a float64 run."""
    before = torch.get_default_dtype()
    try:
        if jax.config.jax_enable_x64:  # type: ignore[attr-defined]
            torch.set_default_dtype(torch.float64)
        yield
    finally:
        torch.set_default_dtype(before)
