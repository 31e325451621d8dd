"""A script's run as the verdict needs it: its losses, rates and evaluations, from the weights that both sides share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import torch
from torch.optim.swa_utils import AveragedModel
from torch.utils import _pytree as pytree

from port.errors import PortError, UsageError
from port.random import dropout_key
from port.random.dropout_of_run import DropoutOfRun
from port.random.threefry import fold_in
from port.records import Recorder
from port.records.recorder import RECORD_VARIABLE
from port.scripts.events import read_events
from port.scripts.observation import Observation
from port.scripts.observing.described import tensors_in
from port.scripts.observing.graph import Computation
from port.scripts.observing.session import Session, flush, is_grad_on
from port.scripts.observing.updates import Updates
from port.scripts.observing.watching import EndsEarly, run_observed
from port.scripts.recording.evaluated import Evaluated
from port.scripts.recording.in_float64 import InFloat64, in_float64
from port.scripts.recording.own_draws import DROPOUT_SEED, OwnDraws
from port.scripts.refusals import refuse
from port.scripts.watched_original import WatchedOriginal
from port.translation import draw_layouts
from port.weights import save_final_weights, share_initial_weights


def record_original(written: Path, steps: int, command: Sequence[str], *, is_float64: bool) -> int:
    """Run a script and record it where the launcher says; returns its exit code.

    Args:
        written: the folder that was written of it.
        steps: updates that are recorded.
        command: FILE ARGUMENTS …, or -m MODULE ARGUMENTS …
        is_float64: whether its models and batches are put into float64.
    """
    folder = Path(os.environ[RECORD_VARIABLE]).with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    original = WatchedOriginal.read(written)

    def attach(session: Session, updates: Updates) -> EndsEarly:
        OriginalRun(session, original, written, steps, is_float64=is_float64)
        return lambda name, batches: False

    return run_observed(folder, command, attach)


class OriginalRun:
    """Records a script's updates while it runs, and ends it behind the last that is asked for.

    Args:
        session: the script's.
        original: what was seen of it when its JAX side was written.
        written: the folder that was written.
        steps: updates that are recorded.
        is_float64: whether its models and batches are put into float64.
    """

    def __init__(
        self, session: Session, original: WatchedOriginal, written: Path, steps: int, *, is_float64: bool
    ) -> None:
        self._session, self._original, self._written = session, original, written
        self._steps, self._is_float64 = steps, is_float64
        self._dropout = DropoutOfRun(draw_layouts(written / "model.safetensors"), x64=is_float64)
        self._double = InFloat64()
        self._module: torch.nn.Module | None = None
        self._recorder: Recorder | None = None
        self._evaluated: Evaluated | None = None
        self._losses: list[torch.Tensor] = []  # since the last update
        self._rates: list[float] = []
        self._step = 0
        self._scale = 1.0  # by which GradScaler has multiplied the loss
        self._is_trained_on = False  # the last batch
        session.modes = [self._double, self._dropout]
        session.arrays.write()  # keeps none
        session.at_pass, session.at_batch = self._at_pass, self._at_batch
        session.before_call, session.at_backward = self._before_call, self._at_backward
        session.watch, session.at_end = self._see, self._end

    def _at_pass(self, name: str, loader: Any) -> Callable[[], AbstractContextManager[None]]:
        draws = OwnDraws(loader, self._step)

        @contextmanager
        def fetching() -> Iterator[None]:
            with self._double.off(), draws():  # transforms compute in float32, as they do for the written trainer
                yield

        return fetching

    def _at_batch(self, name: str, batch: Any) -> Any:
        self._dropout.pause()
        self._is_trained_on = name == self._original.training
        if self._evaluated is not None and name != self._original.evaluation:
            self._end_evaluation()  # it left its pass early
        if self._is_trained_on and self._step == self._steps:
            self._session.end("seen")
        if self._is_float64:
            batch = pytree.tree_map_only(torch.Tensor, in_float64, batch)
        if name == self._original.evaluation and self._evaluated is not None:
            self._evaluated.wait(_parts(batch, self._original.parts))
        if self._is_trained_on:
            self._dropout.begin(self._key())
        return batch

    def _key(self) -> torch.Tensor:
        """Of a microbatch's dropout."""
        key = dropout_key(DROPOUT_SEED, self._step, x64=self._is_float64)
        return key if self._original.microbatches == 1 else fold_in(key, len(self._losses))

    def _before_call(self, module: torch.nn.Module) -> None:
        if self._module is None and self._is_trained_on and any(True for _ in module.parameters()):
            try:
                self._prepare()
            except PortError as error:
                _leave(error)
        if self._evaluated is not None and self._step and not (is_grad_on() and module.training):
            self._evaluated.take()

    def _prepare(self) -> None:
        """The first call in training is about to be made: from here on the run is the one that is judged."""
        session, names, averages = self._session, self._original.modules, self._original.averages
        session.models.tell_all()
        roots = dict(session.models.roots())
        missing = [name for name in (*names, *averages.values()) if name not in roots]
        if missing:
            raise UsageError(
                f"{self._written} was written of a script whose {', '.join(names)} it takes, and this one has no "
                f"{', '.join(missing)} where it is trained: write the folder again, by port script"
            )
        with session.journal.unwritten():  # what is made here is no model of the script's
            made = _loss_class(self._written)
            module = made(*(roots[name] for name in names))
            evaluated = made(*(_inside(roots[averages.get(name, name)]) for name in names)) if averages else module
        share_initial_weights(module)
        self._dropout.watch(module)
        if self._is_float64:
            module.double()
            evaluated.double()
            self._double.begin()
        self._module = module
        precision = "float64" if self._is_float64 else "float32"
        self._recorder = Recorder(total_steps=self._steps, precision=precision)
        if self._original.evaluation is not None:
            self._evaluated = Evaluated(evaluated)

    def _at_backward(self, calls: Sequence[Computation], loss: torch.Tensor) -> None:
        self._losses.append(loss.detach() / self._scale)
        self._dropout.end()

    def _see(self, kind: str, details: dict[str, Any]) -> None:
        if kind == "update":
            self._rates = [group["lr"] for group in details["groups"]] if not details["by_hand"] else []
        elif kind == "updated" and self._recorder is not None and self._losses:
            rates = {"lr" if number == 0 else f"lr_{number}": rate for number, rate in enumerate(self._rates)}
            self._recorder(self._step, loss=torch.stack(self._losses).sum(), **rates)
            self._losses.clear()
            self._step += 1
            self._session.journal.is_kept = False  # it has shown that it trains
        elif kind == "scaler" and details["method"] == "scale" and details["enabled"]:
            self._scale = details["scale"]  # a power of 2: nothing is rounded
        elif kind == "pass ended" and details["name"] == self._original.evaluation:
            self._end_evaluation()

    def _end_evaluation(self) -> None:
        if self._evaluated is not None and (loss := self._evaluated.end()) is not None and self._recorder is not None:
            self._recorder.evaluation(self._step - 1, loss=loss)

    def _end(self) -> None:
        if self._recorder is None or self._module is None or not self._step:
            _leave(self._never_trained())
        else:
            self._end_evaluation()
            self._recorder.close()
            save_final_weights(self._module)

    def _never_trained(self) -> UsageError:
        """Why nothing was recorded, in the words of an observation."""
        events = read_events(self._session.folder / "events.jsonl")
        try:
            refuse(events, Observation.of(events, {}))
        except UsageError as error:
            return error
        return UsageError(
            f"the script trains, and not on batches of {self._original.training}, the loader that {self._written} was "
            f"written for: write it again, by port script"
        )


def _inside(model: Any) -> Any:
    """What an average is of: AveragedModel holds it."""
    return model.module if isinstance(model, AveragedModel) else model


def _leave(error: PortError) -> None:
    """End the process with a refusal, in words; the script must not catch it."""
    print(f"port: {error}", file=sys.stderr)
    flush()
    os._exit(error.exit_code)


def _parts(batch: Any, names: Sequence[str]) -> list[torch.Tensor]:
    found = dict(tensors_in(batch))
    return [found[name] for name in names]


def _loss_class(written: Path) -> Any:
    """torch_loss.py's class: from a batch to its loss."""
    spec = spec_from_file_location("torch_loss", written / "torch_loss.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.FromBatchToLoss
