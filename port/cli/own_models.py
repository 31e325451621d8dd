"""Where a run of the user's own two models differs: are the models themselves the same, and if not, why not?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from port.errors import PortError
from port.judging import Status
from port.training import Outcome
from side_by_side.config import Config

BATCH = 32
"""How many samples of the training set both models are given."""


def with_causes(outcomes: Sequence[Outcome], config: Config, folder: Path) -> list[Outcome]:
    """The outcomes, with what a check of both models from the run's initial weights says beside those that differ.

    Args:
        outcomes: of the run.
        config: of the run, with both models.
        folder: of the run, with its initial weights.
    """
    differing = [outcome for outcome in outcomes if outcome.verdict.status is Status.DIFFER]
    initial = folder / "initial.safetensors"
    if not differing or config.torch_model is None or config.jax_model is None or not initial.exists():
        return list(outcomes)
    try:
        report = _checked(config, initial)
    except PortError as error:
        first = [f"the two models by themselves cannot be checked: {str(error).splitlines()[0]}"]
        return [_told(outcome, first, ()) if outcome in differing else outcome for outcome in outcomes]
    if report.status is Status.AGREE:
        first = ["the two models agree from the initial weights: look at the data, the loss and the optimizer"]
    else:
        first = [f"the two models differ by themselves: {cause}" for cause in report.causes] or [report.sentence]
    return [_told(outcome, first, report.causes) if outcome in differing else outcome for outcome in outcomes]


def _told(outcome: Outcome, first: list[str], causes: Any) -> Outcome:
    verdict = outcome.verdict
    return replace(outcome, verdict=replace(verdict, hints=[*first, *verdict.hints]), causes=tuple(causes))


def _checked(config: Config, initial: Path) -> Any:
    """Check both models from the initial weights, on the training set's first samples."""
    import numpy as np

    from port.cli.models import built_flax_model, built_torch_model
    from port.data import load_examples
    from port.named import arguments
    from port.parity import check
    from port.weights import load
    from side_by_side.own import beside

    assert config.torch_model is not None and config.jax_model is not None
    mapping = beside(config.jax_model, ".mapping.toml")
    theirs = built_torch_model(config.torch_model, arguments(config.torch_kwargs, "--torch-kwargs"), "--torch-model")
    ours = built_flax_model(config.jax_model, arguments(config.jax_kwargs, "--jax-kwargs"), "--jax-model")
    load(theirs, initial)
    load(ours, initial, rename=mapping)
    images = load_examples(config.dataset, config.data_root, train=True).images[:BATCH]
    return check(theirs, ours, np.moveaxis(images / 255.0, -1, 1), rename=mapping)
