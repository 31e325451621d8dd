"""Finds out why two records differ: the runs' options, their initial weights, or their models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from port.cli.guarding import guarded
from port.cli.models import built_flax_model, built_torch_model
from port.data import load_examples
from port.errors import PortError, UsageError
from port.extras import require
from port.judging import Status
from port.named import arguments
from port.records import Record
from port.training import Outcome, options_of_run
from port.weights import largest_difference, load, read_arrays
from side_by_side.config import Config
from side_by_side.own import beside

BATCH = 32
"""How many samples of the training set both models are run on."""


@dataclass(frozen=True)
class TrainingRun:
    """A run of `port train` that a record belongs to.

    Attributes:
        config: the run's options.
        folder: the run folder, with its initial weights.
    """

    config: Config
    folder: Path

    @property
    def initial(self) -> Path:
        """The initial weights of both sides."""
        return self.folder / "initial.safetensors"


def with_causes(outcomes: Sequence[Outcome], config: Config, folder: Path) -> list[Outcome]:
    """Add to the outcomes that differ what a check of both models from the run's initial weights finds.

    Args:
        outcomes: the run's outcomes.
        config: the run's config.
        folder: the run folder, with its initial weights.
    """
    run = TrainingRun(config, folder)
    differing = [outcome for outcome in outcomes if outcome.verdict.status is Status.DIFFER]
    if not differing or not run.initial.exists():
        return list(outcomes)
    hints, causes = _checked_hints(run, run)
    return [_with_hints(outcome, hints, causes) if outcome in differing else outcome for outcome in outcomes]


def with_causes_at_hand(outcome: Outcome) -> Outcome:
    """Find the causes from two records alone, of one run of `port train` or of two.

    These are the options and initial weights in which the runs differ, and why the models do. Only models of
    `port train` itself, or of a file below the current directory, are imported; no other model is imported because a
    record names it.
    """
    a, b = _run_of(outcome.torch), _run_of(outcome.jax)
    if outcome.verdict.status is not Status.DIFFER or a is None or b is None:
        return outcome
    hints = _between(a, b)
    causes: tuple[Any, ...] = ()
    torch, jax = (a, b) if outcome.torch.name == "torch" else (b, a)
    is_here = all(_is_here(name) for name in (torch.config.torch_model, jax.config.jax_model) if name is not None)
    if {outcome.torch.name, outcome.jax.name} == {"torch", "jax"} and is_here and jax.initial.exists():
        said, causes = _checked_hints(torch, jax)
        hints += said if causes or hints else []
    return _with_hints(outcome, hints, causes) if hints else outcome


def _run_of(record: Record) -> TrainingRun | None:
    """Find the run that a record belongs to, by the folder layout of `port.training`."""
    folder = record.path.resolve().parent.parent
    try:
        options = options_of_run(folder)
        paths = {name: Path(options[name]) for name in ("data_root", "out") if options.get(name) is not None}
        return TrainingRun(Config(**{**options, **paths}), folder)
    except (PortError, TypeError):  # not a run folder, or another version's
        return None


def _between(a: TrainingRun, b: TrainingRun) -> list[str]:
    """List how two runs differ before they begin."""
    if a.folder == b.folder:
        return []
    options, others = a.config.compared(), b.config.compared()
    apart = [name for name in options if options[name] != others[name]]
    said = [f"{name.replace('_', ' ')} ({_shown(options[name])} and {_shown(others[name])})" for name in apart]
    hints = [f"the two runs have different options: {', '.join(said)}"] if said else []
    try:
        initial = [read_arrays(run.initial) for run in (a, b)]
    except PortError:
        return hints
    name, difference = largest_difference(*initial)
    begin = f"the two runs begin with different weights: {name} differs by {difference:.1e}"
    return [*hints, begin] if difference > 0 else hints


def _shown(option: Any) -> str:
    return "the default" if option is None else str(option)


def _checked_hints(torch: TrainingRun, jax: TrainingRun) -> tuple[list[str], tuple[Any, ...]]:
    """Check one run's PyTorch model against another's (or its own) JAX model; return hints, and the causes found."""
    try:
        # Whatever fails here, the verdict already exists.
        report = guarded(partial(_checked, torch, jax), "it did not run to its end")
    except PortError as error:
        return [f"the two models alone cannot be checked: {str(error).splitlines()[0]}"], ()
    if report.status is Status.AGREE:
        return ["the two models agree from the initial weights: look at the data, the loss and the optimizer"], ()
    hints = [f"the two models alone differ: {cause}" for cause in report.causes] or [report.sentence]
    return hints, report.causes


def _is_here(reference: str) -> bool:
    """Whether a model's file is below the current directory."""
    try:
        source = beside(reference, ".py")
    except (ImportError, ValueError):
        return False
    return source is not None and source.resolve().is_relative_to(Path.cwd())


def _with_hints(outcome: Outcome, first: list[str], causes: Sequence[Any]) -> Outcome:
    verdict = outcome.verdict
    sentence = verdict.sentence
    if causes and verdict.first is not None and verdict.first.step is not None:
        cause = causes[0]
        said = f"{cause.kind.replace('-', ' ')}" + (f" at {cause.layer}" if cause.layer else "")
        note = f" ({cause.note})" if cause.note else ""
        start, _, why = sentence.partition(" differ: ")
        sentence = f"{start} differ from step {verdict.first.step}: {said}{note}; {why}"
    verdict = replace(verdict, sentence=sentence, hints=[*first, *verdict.hints])
    return replace(outcome, verdict=verdict, causes=tuple(causes))


def _checked(torch: TrainingRun, jax: TrainingRun) -> Any:
    """Check both models from the same initial weights, those of torch's run, on the training set's first samples.

    Raises:
        MissingExtra: PyTorch is not installed.
        UsageError: only one of the models is a user's.
    """
    require("the check of both models", torch=("torch", "psutil"))
    if (torch.config.torch_model is None) != (jax.config.jax_model is None):
        raise UsageError("only one of them is a model of port train's own")
    images = load_examples(torch.config.dataset, torch.config.data_root, train=True).images[:BATCH]
    models = _own if torch.config.torch_model else _built_in
    theirs, ours, inputs, options = models(torch.config, jax.config, images)
    load(theirs, torch.initial)
    load(ours, torch.initial, rename=options.get("rename"))
    from port.parity.checking import check

    return check(theirs, ours, inputs, **options)


def _own(torch: Config, jax: Config, images: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
    """A user's two models, the inputs of torch's, and options of the check."""
    import numpy as np

    assert torch.torch_model is not None and jax.jax_model is not None
    theirs = built_torch_model(torch.torch_model, arguments(torch.torch_kwargs, "--torch-kwargs"), "--torch-model")
    ours = built_flax_model(jax.jax_model, arguments(jax.jax_kwargs, "--jax-kwargs"), "--jax-model")
    inputs = np.moveaxis(images / 255.0, -1, 1)
    return theirs, ours, inputs, {"rename": beside(jax.jax_model, ".mapping.toml")}


def _built_in(torch: Config, jax: Config, images: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
    """The same for the trainers' own models, which scale their images themselves; on one replica."""
    import numpy as np
    from jax.random import key

    from port.nn import DropoutMasks
    from side_by_side.jax import model as ours
    from side_by_side.pytorch import model as theirs

    alone = [Config(model=c.model, dataset=c.dataset, dropout=c.dropout, seed=c.seed) for c in (torch, jax)]
    inputs = np.moveaxis(images, -1, 1)
    options = {"flax_inputs": (images, DropoutMasks(key(0))), "channels_last": False}
    return theirs.build(alone[0]), ours.build(alone[1]), inputs, options
