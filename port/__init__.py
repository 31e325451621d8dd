"""Moves a PyTorch project to JAX and proves that nothing changed.

The public face: names only. torch, jax and matplotlib are imported where they are used, not here.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from port.data import IndexPlan, PlanSampler, PlanSource
    from port.random import dropout_key, shared_dropout
    from port.records import Recorder, Verdict, compare, read_record
    from port.weights import (
        initial_weights,
        load,
        save,
        save_final_weights,
        share_initial_weights,
    )

__version__ = "0.1.0"

_HOMES = {
    "IndexPlan": "port.data",
    "PlanSampler": "port.data",
    "PlanSource": "port.data",
    "Recorder": "port.records",
    "Verdict": "port.records",
    "compare": "port.records",
    "dropout_key": "port.random",
    "initial_weights": "port.weights",
    "load": "port.weights",
    "read_record": "port.records",
    "save": "port.weights",
    "save_final_weights": "port.weights",
    "share_initial_weights": "port.weights",
    "shared_dropout": "port.random",
}
_ROOMS = ("data", "errors", "mapping", "nn", "pairs", "random", "records", "report", "training", "weights")

__all__ = [
    "IndexPlan",
    "PlanSampler",
    "PlanSource",
    "Recorder",
    "Verdict",
    "compare",
    "dropout_key",
    "initial_weights",
    "load",
    "read_record",
    "save",
    "save_final_weights",
    "share_initial_weights",
    "shared_dropout",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _ROOMS:
        return import_module(f"port.{name}")
    raise AttributeError(f"module 'port' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *_ROOMS, "__version__"]
