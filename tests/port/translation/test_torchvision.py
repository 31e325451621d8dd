"""torchvision's models: the kept table of all of them, and some of them translated anew."""

from __future__ import annotations

import pytest
import torch
from torchvision import models
from torchvision.ops import StochasticDepth

import port

from .torchvision_models import MODELS
from .torchvision_run import alone, table
from .zoo.example import floats

SECONDS = 840.0
"""After 900 pytest ends the whole run."""
GAPS: dict[str, str] = {}
"""Models that do not agree yet, and why."""


def test_the_models_are_torchvisions_but_for_the_detectors() -> None:
    assert set(MODELS) == set(models.list_models()) - set(models.list_models(models.detection))
    assert len(MODELS) == 109


def test_what_is_in_the_table_agrees_or_is_a_known_gap() -> None:
    kept = table()
    assert kept.keys() <= MODELS.keys()
    assert {name for name, row in kept.items() if not row["agrees"]} == set(GAPS)


def test_the_table_says_how_the_models_were_run() -> None:
    for name, row in table().items():
        model = MODELS[name]
        assert (row["family"], row["narrowed"], row["changed"]) == (model.family, model.narrowed, model.changed)
        assert name in GAPS or row["precision"] == "float64", name


LIGHT = [row for row in table().values() if row["agrees"] and row["gigabytes"] < 10]
"""Two at once are no more than a small machine has; the others are run by `torchvision_run` alone."""
FAMILIES = {row["family"]: row["name"] for row in sorted(LIGHT, key=lambda row: -row["seconds"])}
"""The quickest of each family."""


@pytest.mark.sweep
@pytest.mark.daily(6)  # each takes a minute
@pytest.mark.parametrize("name", sorted(FAMILIES.values()))
def test_one_of_each_family_is_as_good_as_the_table_says(name: str) -> None:
    as_good_as_the_table_says(name)


@pytest.mark.sweep
@pytest.mark.daily(36)
@pytest.mark.parametrize("name", [row["name"] for row in LIGHT if row["name"] not in FAMILIES.values()])
def test_the_others_are_as_good_as_the_table_says(name: str) -> None:
    as_good_as_the_table_says(name)


def as_good_as_the_table_says(name: str) -> None:
    kept = table()[name]
    row = alone(name, SECONDS)
    assert row["agrees"] == kept["agrees"], row.get("error") or row["apart"]
    assert not row["silently_wrong"]
    if kept["agrees"]:
        assert row["transposes"] <= kept["transposes"]
        assert row["classes"][0] <= kept["classes"][0]


class _OfChannels(torch.nn.Module):
    """Its rows are channels: in JAX they come last."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 40, 3)
        self.drop = StochasticDepth(0.5, "row")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(self.conv(x).permute(1, 0, 2, 3))


@pytest.mark.sweep
def test_stochastic_depth_drops_along_torchs_first_axis() -> None:
    x = floats(2, 3, 5, 5)
    translation = port.translate(_OfChannels(), (x,))
    assert translation.proof is not None and translation.proof.agrees, str(translation.proof)
    given = translation.to_torch(translation.module(*translation.to_flax((x,))))
    gone = (given == 0).flatten(1)
    assert given.shape[0] == 40
    assert (gone.all(1) | ~gone.any(1)).all()
    assert 0 < gone.all(1).sum() < 40
