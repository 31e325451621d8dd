"""Where a run differs: are the two models themselves the same, and if not, why not?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from port.cli.guarding import guarded
from port.errors import PortError, UsageError
from port.judging import Status
from port.records import Record
from port.training import Outcome, told_before
from side_by_side.config import Config
from side_by_side.own import beside

BATCH = 32
"""How many samples of the training set both models are given."""
_INITIAL = "initial.safetensors"


def with_causes(outcomes: Sequence[Outcome], config: Config, folder: Path) -> list[Outcome]:
    """The outcomes, with what a check of both models from the run's initial weights says beside those that differ.

    Args:
        outcomes: of the run.
        config: of the run.
        folder: of the run, with its initial weights.
    """
    differing = [outcome for outcome in outcomes if outcome.verdict.status is Status.DIFFER]
    if not differing or not (folder / _INITIAL).exists():
        return list(outcomes)
    try:
        # Whatever fails here, the verdict is there.
        report = guarded(partial(_checked, config, folder / _INITIAL), "it did not run to its end")
    except PortError as error:
        first = [f"the two models by themselves cannot be checked: {str(error).splitlines()[0]}"]
        return [_told(outcome, first, ()) if outcome in differing else outcome for outcome in outcomes]
    if report.status is Status.AGREE:
        first = ["the two models agree from the initial weights: look at the data, the loss and the optimizer"]
    else:
        first = [f"the two models differ by themselves: {cause}" for cause in report.causes] or [report.sentence]
    return [_told(outcome, first, report.causes) if outcome in differing else outcome for outcome in outcomes]


def with_causes_at_hand(outcome: Outcome) -> Outcome:
    """The same of two records alone; as it was, where they are not of one run of `port train`'s whose models are at
    hand: its own, or those of a file beneath the folder that one is in. No other is imported for having been named."""
    if outcome.verdict.status is not Status.DIFFER:
        return outcome
    run = _run_of(outcome.torch, outcome.jax)
    if run is None:
        return outcome
    [told] = with_causes([outcome], *run)
    return told if told.causes else outcome


def _run_of(a: Record, b: Record) -> tuple[Config, Path] | None:
    """The config and the folder of the run that two records are of, as `port.training` lays it out."""
    folder = a.path.resolve().parent.parent
    if folder != b.path.resolve().parent.parent or {a.name, b.name} != {"torch", "jax"}:
        return None
    try:
        told = told_before(folder)
        paths = {name: Path(told[name]) for name in ("data_root", "out") if told.get(name) is not None}
        config = Config(**{**told, **paths})
    except (PortError, TypeError):  # no run's folder, or another version's
        return None
    own = [reference for reference in (config.torch_model, config.jax_model) if reference is not None]
    return (config, folder) if all(_is_here(reference) for reference in own) else None


def _is_here(reference: str) -> bool:
    """Whether a model's file lies beneath the folder that one is in."""
    try:
        source = beside(reference, ".py")
    except (ImportError, ValueError):
        return False
    return source is not None and source.resolve().is_relative_to(Path.cwd())


def _told(outcome: Outcome, first: list[str], causes: Sequence[Any]) -> Outcome:
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


def _checked(config: Config, initial: Path) -> Any:
    """Check both models from the initial weights, on the training set's first samples.

    Raises:
        UsageError: PyTorch is not here.
    """
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        raise UsageError("PyTorch is not installed here") from error
    from port.data import load_examples
    from port.weights import load

    images = load_examples(config.dataset, config.data_root, train=True).images[:BATCH]
    theirs, ours, given, options = _own(config, images) if config.torch_model else _built_in(config, images)
    load(theirs, initial)
    load(ours, initial, rename=options.get("rename"))
    from port.parity import check

    return check(theirs, ours, given, **options)


def _own(config: Config, images: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
    """A person's two models, what torch's is given, and options of the check."""
    import numpy as np

    from port.cli.models import built_flax_model, built_torch_model
    from port.named import arguments

    assert config.torch_model is not None and config.jax_model is not None
    theirs = built_torch_model(config.torch_model, arguments(config.torch_kwargs, "--torch-kwargs"), "--torch-model")
    ours = built_flax_model(config.jax_model, arguments(config.jax_kwargs, "--jax-kwargs"), "--jax-model")
    given = np.moveaxis(images / 255.0, -1, 1)
    return theirs, ours, given, {"rename": beside(config.jax_model, ".mapping.toml")}


def _built_in(config: Config, images: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
    """The same of the trainers' own models, which scale their images themselves; on one replica."""
    import jax
    import numpy as np

    from port.nn import DropoutMasks
    from side_by_side.jax import model as ours
    from side_by_side.pytorch import model as theirs

    alone = Config(model=config.model, dataset=config.dataset, dropout=config.dropout, seed=config.seed)
    given = np.moveaxis(images, -1, 1)
    options = {"flax_inputs": (images, DropoutMasks(jax.random.key(0))), "channels_last": False}
    return theirs.build(alone), ours.build(alone), given, options
