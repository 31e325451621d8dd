"""Datasets, and the one index plan that the torch loader and the grain loader follow."""

from typing import TYPE_CHECKING, Any

from port.data.augment import Augmented
from port.data.datasets import (
    DATASETS,
    DatasetInfo,
    Examples,
    dataset_info,
    load_dataset,
    load_examples,
)
from port.data.digits import Digits
from port.data.evaluation import padded_batches
from port.data.grain_loader import PlanSource
from port.data.plan import IndexPlan, PlannedIndex
from port.data.shards import Places, Shards, Share, loss_weights
from port.extras import naming_extras

if TYPE_CHECKING:
    from port.data.torch_loader import PlanSampler

__all__ = [
    "DATASETS",
    "Augmented",
    "DatasetInfo",
    "Digits",
    "Examples",
    "IndexPlan",
    "Places",
    "PlanSampler",
    "PlanSource",
    "PlannedIndex",
    "Shards",
    "Share",
    "dataset_info",
    "load_dataset",
    "load_examples",
    "loss_weights",
    "padded_batches",
]


def __getattr__(name: str) -> Any:
    if name == "PlanSampler":  # the only name that needs torch
        with naming_extras("port.data.PlanSampler"):
            from port.data.torch_loader import PlanSampler

        return PlanSampler
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
