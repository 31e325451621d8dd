"""Moves a PyTorch project to JAX and proves that nothing changed.

The public face: names only. torch, jax and matplotlib are imported where they are used, not here.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from port.extras import naming_extras
from port.version import __version__ as __version__

if TYPE_CHECKING:
    from port.data import IndexPlan, PlanSampler, PlanSource
    from port.matching import Match, match
    from port.optim import load_optimizer, optax_source, to_optax
    from port.pairs import register
    from port.parity import CheckReport, check, check_flax
    from port.random import dropout_key, shared_dropout
    from port.records import Recorder, Verdict, compare, read_record
    from port.translation import Translation, translate
    from port.weights import (
        initial_weights,
        load,
        save,
        save_final_weights,
        share_initial_weights,
        to_flax,
        to_torch,
    )
    from port.weights.adapter_saving import save_adapter


_HOMES = {
    "CheckReport": "port.parity",
    "IndexPlan": "port.data",
    "Match": "port.matching",
    "PlanSampler": "port.data",
    "PlanSource": "port.data",
    "Recorder": "port.records",
    "Translation": "port.translation",
    "Verdict": "port.records",
    "check": "port.parity",
    "check_flax": "port.parity",
    "compare": "port.records",
    "dropout_key": "port.random",
    "initial_weights": "port.weights",
    "load": "port.weights",
    "load_optimizer": "port.optim",
    "optax_source": "port.optim",
    "match": "port.matching",
    "read_record": "port.records",
    "register": "port.pairs",
    "save": "port.weights",
    "save_adapter": "port.weights.adapter_saving",
    "save_final_weights": "port.weights",
    "share_initial_weights": "port.weights",
    "shared_dropout": "port.random",
    "to_flax": "port.weights",
    "to_optax": "port.optim",
    "to_torch": "port.weights",
    "translate": "port.translation",
}
_ROOMS = (
    "data",
    "errors",
    "extras",
    "judging",
    "lessons",
    "mapping",
    "matching",
    "moves",
    "nn",
    "optim",
    "pairs",
    "parity",
    "random",
    "records",
    "report",
    "scripts",
    "training",
    "translation",
    "transforms",
    "weights",
)

__all__ = [
    "CheckReport",
    "IndexPlan",
    "Match",
    "PlanSampler",
    "PlanSource",
    "Recorder",
    "Translation",
    "Verdict",
    "check",
    "check_flax",
    "compare",
    "dropout_key",
    "initial_weights",
    "load",
    "load_optimizer",
    "match",
    "optax_source",
    "read_record",
    "register",
    "save",
    "save_adapter",
    "save_final_weights",
    "share_initial_weights",
    "shared_dropout",
    "to_flax",
    "to_optax",
    "to_torch",
    "translate",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        with naming_extras(f"port.{name}"):
            return getattr(import_module(_HOMES[name]), name)
    if name in _ROOMS:
        with naming_extras(f"port.{name}"):
            return import_module(f"port.{name}")
    raise AttributeError(f"module 'port' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *_ROOMS, "__version__"]
