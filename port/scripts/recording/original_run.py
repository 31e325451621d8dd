"""Record a script's run for the verdict: losses, rates and evaluations, from the initial weights of both sides."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
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
from port.scripts.found_by_script import FoundByScript
from port.scripts.observing.described import tensors_in
from port.scripts.observing.graph import Computation
from port.scripts.observing.known_models import unwrapped
from port.scripts.observing.lines import here
from port.scripts.observing.session import Session, flush, is_grad_on
from port.scripts.observing.updates import Updates
from port.scripts.observing.watching import EndsEarly, own_folder, run_observed
from port.scripts.own_draws import DROPOUT_SEED, EVALUATION_SEED, OwnDraws, draws_of_update
from port.scripts.ranks import ProcessRank
from port.scripts.recording.drawing_lines import DrawingLines
from port.scripts.recording.evaluated import Evaluated
from port.scripts.recording.evaluation_of_run import EvaluationOfRun
from port.scripts.recording.in_float64 import InFloat64, in_float64
from port.scripts.recording.recorded_ranks import RecordedRanks
from port.scripts.recording.same_shapes import check_shapes
from port.scripts.recording.untrained import untrained_error
from port.scripts.trained_modules import FILE, together, torch_loss
from port.scripts.watched_original import LinesOfLoop, WatchedOriginal
from port.translation import draw_layouts
from port.weights import save_final_weights, share_initial_weights
from port.weights.shared import FINAL_VARIABLE


def record_original(written: Path, steps: int, command: Sequence[str], *, is_float64: bool) -> int:
    """Run a script and record it where the launcher asks; returns its exit code.

    Args:
        written: the folder written from it.
        steps: how many updates to record.
        command: FILE ARGUMENTS …, or -m MODULE ARGUMENTS …
        is_float64: whether to cast its models and batches to float64.
    """
    folder = Path(os.environ[RECORD_VARIABLE]).with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    rank = ProcessRank.of_this_process()
    if not rank.is_first:  # its record is discarded
        own = own_folder(folder, rank)
        os.environ.update({RECORD_VARIABLE: str(own / "record.jsonl"), FINAL_VARIABLE: str(own / "final.safetensors")})
    original = WatchedOriginal.read(written)

    def attach(session: Session, updates: Updates) -> EndsEarly:
        try:
            OriginalRun(session, original, written, steps, is_float64=is_float64)
        except PortError as error:
            _leave(error)
        return lambda name, batches: False

    return run_observed(folder, command, attach)


class OriginalRun:
    """Records a script's updates while it runs, and ends it after the last requested one.

    Args:
        session: the script's session.
        original: what was recorded about it when its JAX side was written.
        written: the written folder.
        steps: how many updates to record.
        is_float64: whether to cast its models and batches to float64.
    """

    def __init__(
        self, session: Session, original: WatchedOriginal, written: Path, steps: int, *, is_float64: bool
    ) -> None:
        self._session, self._original, self._written = session, original, written
        self._steps, self._is_float64 = steps, is_float64
        self._ranks = RecordedRanks(original.ranks, is_float64=is_float64)
        # With several optimizers in turn, no trainer is written if a model draws.
        weights = written / "model.safetensors" if original.last_optimizer is None else None
        self._dropout = DropoutOfRun(draw_layouts(weights) if weights else [], x64=is_float64)
        self._drawn_in_evaluation = draw_layouts(weights, training=False) if weights else []
        self._double = InFloat64()
        self._module: torch.nn.Module | None = None
        self._recorder: Recorder | None = None
        self._losses: list[torch.Tensor] = []  # since the last update
        self._rates: list[float] = []
        self._step = 0
        self._scale = 1.0  # GradScaler's factor of the loss
        self._trains_on_all = not original.training and not original.calls  # on all its data in each update
        self._is_trained_on = self._trains_on_all  # the last batch
        self._found = FoundByScript(original.calls) if original.calls else None
        self._evaluation = EvaluationOfRun(original.numbers, lambda batch: _parts(batch, original.parts))
        self._evaluated_at = 0  # the update after which it last was
        self._drawing_lines: DrawingLines | None = None
        if original.loop is not None:
            lines = LinesOfLoop.from_data(original.loop)
            self._drawing_lines = DrawingLines(lines, self._before_drawing, lambda: self._step, _leave)
            self._drawing_lines.watch()
        session.modes = [self._double, self._dropout]
        session.arrays.write()  # keeps none
        session.at_pass, session.at_batch = self._at_pass, self._at_batch
        session.before_call, session.at_backward = self._before_call, self._at_backward
        session.watch, session.at_end, session.at_sum = self._see, self._end, self._at_sum

    def _at_pass(self, name: str, loader: Any) -> Callable[[], AbstractContextManager[None]]:
        draws = OwnDraws(loader, self._step)

        @contextmanager
        def fetching() -> Iterator[None]:
            with self._double.off(), draws():  # transforms compute in float32, as for the written trainer
                yield

        return fetching

    def _at_batch(self, name: str, batch: Any) -> Any:
        self._dropout.pause()
        self._is_trained_on = self._trains_on_all or name == self._original.training
        if self._evaluation.is_kept and name != self._original.evaluation:
            self._end_evaluation()  # it left its pass early
        if self._is_trained_on and self._step == self._steps:
            self._session.end("seen")
        if self._is_float64:
            batch = pytree.tree_map_only(torch.Tensor, in_float64, batch)
        if name == self._original.evaluation and self._recorder is not None:
            self._evaluation.wait(batch)
        if self._is_trained_on:
            self._dropout.begin(self._key(), part=self._ranks.part_of(batch))
        if self._is_trained_on and self._original.makes_inputs:
            if self._module is None:
                self._begin()  # before the loop draws anything, so that it draws in the run's precision
            draws_of_update(self._step).begin()
        return batch

    def _key(self) -> torch.Tensor:
        """The key of a microbatch's dropout."""
        key = dropout_key(DROPOUT_SEED, self._step, x64=self._is_float64)
        return key if self._original.microbatches == 1 else fold_in(key, len(self._losses))

    def _before_call(self, module: torch.nn.Module) -> None:
        if self._found is not None and _trains(module) and not self._is_trained_on:
            self._begin_own(module)
        if self._module is None and self._is_trained_on and any(True for _ in module.parameters()):
            self._begin()
        if self._module is not None and self._is_trained_on and self._dropout.is_missing and _trains(module):
            # Its batch was prefetched, before the previous update.
            self._dropout.begin(self._key(), part=self._ranks.part)
        if self._evaluation.loss is not None and self._step and not _trains(module):
            self._evaluation.loss.take()
            self._end_if_whole()

    def _before_drawing(self) -> None:
        """Prepare for a loop over steps to draw a batch: in the run's precision, apart from dropout's draws."""
        self._session.models.report_all()
        known = {name for name, _ in self._session.models.roots()}
        if self._module is None and known >= set(self._original.modules):
            self._begin()
        self._dropout.pause()

    def _begin_own(self, module: torch.nn.Module) -> None:
        """Begin an update of a script without loaders: it calls the trained model with a batch for the first time."""
        if any(True for _ in module.parameters()):
            self._end_evaluation()
            self._is_trained_on = True
            if self._drawing_lines is not None:
                self._drawing_lines.used()
            self._begin_update()

    def _begin_update(self) -> None:
        """Begin an update of a script without loaders."""
        if self._step == self._steps:
            self._session.end("seen")
        self._dropout.begin(self._key())

    def _begin(self) -> None:
        try:
            self._prepare()
        except PortError as error:
            _leave(error)

    def _prepare(self) -> None:
        """Prepare for the first call in training mode: the judged run starts here."""
        session, names, averages = self._session, self._original.modules, self._original.averages
        self._dropout.pause()  # a control perturbs its weights with draws
        session.models.report_all()
        roots = {name: unwrapped(model) for name, model in session.models.roots()}
        missing = [name for name in (*names, *averages.values()) if name not in roots]
        if missing:
            raise UsageError(
                f"{self._written} was written from a script that trains {', '.join(names)}, but this one has no "
                f"{', '.join(missing)} where it trains: write the folder again with port script"
            )
        check_shapes(self._written, {name: roots[name] for name in names})
        with session.journal.unwritten():  # modules made here are not the script's models
            module = self._joined({name: roots[name] for name in names})
            averaged = {name: _inside(roots[averages.get(name, name)]) for name in names}
            evaluated = self._joined(averaged) if averages else module
        self._ranks.in_turn(lambda: share_initial_weights(module, double=self._is_float64))
        self._dropout.watch(module)
        if self._is_float64:
            evaluated.double()
            self._double.begin()
        self._module = module
        precision = "float64" if self._is_float64 else "float32"
        self._recorder = Recorder(total_steps=self._steps, precision=precision)
        judges = any(one["judged"] for one in self._original.numbers)
        has_loss = self._original.evaluation is not None and self._found is None and not judges
        if has_loss and self._ranks.this.is_first:
            self._evaluation.loss = Evaluated(evaluated, self._drawing)
        self._dropout.begin(self._key(), part=self._ranks.part)

    def _joined(self, models: dict[str, torch.nn.Module]) -> torch.nn.Module:
        """The models as one module that computes a batch's loss; or, for several optimizers, side by side."""
        if self._original.last_optimizer is not None:
            return together(models)
        module: torch.nn.Module = torch_loss(self._written / FILE).FromBatchToLoss(*models.values())
        return module

    @contextmanager
    def _drawing(self, batch: int) -> Iterator[None]:
        """The context of the model's draws for an evaluation batch."""
        key = fold_in(dropout_key(EVALUATION_SEED, self._step, x64=self._is_float64), batch)
        self._dropout.begin(key, self._drawn_in_evaluation)
        yield
        self._dropout.end()

    def _at_backward(self, calls: Sequence[Computation], loss: torch.Tensor) -> None:
        self._losses.append(loss.detach() / self._scale)
        self._dropout.end()
        self._is_trained_on = self._is_trained_on and self._found is None

    def _see(self, kind: str, details: dict[str, Any]) -> None:
        if kind == "update":
            self._rates = [group["lr"] for group in details["groups"]] if not details["by_hand"] else []
            if details["by_hand"]:
                self._record()
        elif kind == "updated" and self._original.last_optimizer in (None, details.get("name")):
            self._record()
        elif kind == "scaler" and details["method"] == "scale" and details["enabled"]:
            self._scale = details["scale"]  # a power of 2: nothing is rounded
        elif kind == "number" and self._found is not None and self._step:
            self._found.see(details)
        elif kind == "number":
            self._see_number(details["value"], here())
        elif kind == "switch" and self._found is not None and not details["training"]:
            self._end_evaluation()  # another one begins; with a loader, its pass shows that
        elif kind == "pass" and details["name"] == self._original.evaluation:
            self._end_evaluation()  # the previous one skipped some of its batches
        elif kind == "pass ended" and details["name"] == self._original.evaluation:
            self._evaluation.pass_ended()
            self._end_if_whole()

    def _at_sum(self, calls: Sequence[Computation], description: Any, value: Any, where: dict[str, Any]) -> None:
        self._see_number(value, where)

    def _see_number(self, value: Any, where: dict[str, Any] | None) -> None:
        """Take in a number of an evaluation batch; one function may both train and evaluate."""
        numbers = self._evaluation.numbers
        if numbers is not None and self._recorder is not None and not self._is_trained_on:
            numbers.see(value, where)
            self._end_if_whole()

    def _record(self) -> None:
        """Record a complete update."""
        if self._recorder is not None and self._losses:
            rates = {"lr" if number == 0 else f"lr_{number}": rate for number, rate in enumerate(self._rates)}
            losses = self._losses[:1] if self._original.closure else self._losses
            self._recorder(self._step, loss=self._ranks.mean(torch.stack(losses).sum()), **rates)
            self._losses.clear()
            self._step += 1
            self._session.journal.is_kept = False  # it has shown that it trains
            if self._trains_on_all:
                self._begin_update()

    def _end_if_whole(self) -> None:
        """End the evaluation, unless a prefetched batch is still to be evaluated."""
        if self._evaluation.is_whole:
            self._end_evaluation()

    def _end_evaluation(self) -> None:
        numbers = self._evaluation.end()
        if self._found is not None:
            loss = self._found.end()
            numbers = {"loss": loss} if loss is not None else None
        if numbers is None or self._recorder is None or self._original.evaluation is None or not self._step:
            return
        if self._found is None or self._step > self._evaluated_at:  # after all training there may be one more
            self._recorder.evaluation(self._step - 1, **numbers)
            self._evaluated_at = self._step

    def _end(self) -> None:
        if self._recorder is None or self._module is None or not self._step:
            _leave(untrained_error(self._session.folder, self._original, self._written))
        else:
            self._end_evaluation()
            self._recorder.close()
            save_final_weights(self._module)


def _inside(model: Any) -> Any:
    """The averaged model that an AveragedModel holds."""
    return model.module if isinstance(model, AveragedModel) else model


def _trains(module: torch.nn.Module) -> bool:
    """Whether a call of the module is for training."""
    return is_grad_on() and module.training


def _leave(error: PortError) -> None:
    """End the process with an error message; the script must not catch it."""
    print(f"port: {error}", file=sys.stderr)
    flush()
    os._exit(error.exit_code)


def _parts(batch: Any, names: Sequence[str]) -> list[torch.Tensor]:
    found = dict(tensors_in(batch))
    return [found[name] for name in names]
