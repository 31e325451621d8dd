"""Initial and final weights of a run: two trainers, in two processes, begin with the same numbers.

PyTorch draws the initial weights and shares them; JAX waits for them and loads them::

    port.share_initial_weights(model)              # in the PyTorch script
    port.load(model, port.initial_weights())       # in the JAX script

The launcher sets where they are. For its controls it runs the PyTorch script again, and `share_initial_weights`
perturbs the weights in their last places.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from port.errors import BrokenWeights, NoLauncher
from port.judging.limits import CONTROL_UNITS
from port.weights.modules import load, save

if TYPE_CHECKING:
    import torch

    from port.mapping import Mapping

INITIAL_VARIABLE = "PORT_INITIAL_WEIGHTS"  # set by the launcher for a trainer
FINAL_VARIABLE = "PORT_FINAL_WEIGHTS"
CONTROL_VARIABLE = "PORT_CONTROL"


def share_initial_weights(model: torch.nn.Module, path: Path | str | None = None, *, double: bool = False) -> None:
    """Share a torch model's initial weights with the JAX side.

    Writes them where the launcher sets, or to ``path``. If they have been written before (by this run in another
    precision, or by an earlier run), they are loaded instead, so that all runs begin with the same numbers. In a
    control the model's weights are then perturbed in their last places.

    Args:
        model: the model with these weights; changed in place.
        path: the file's path, for a script that was not started by ``port train``.
        double: whether the model computes in float64 from here on, though its weights were made in float32: a control
            is then perturbed in float64's last places.

    Raises:
        NoLauncher: not started by ``port train``, and no path.
        WeightsMismatch: the existing weights are of another model.
    """
    place = _place(path)
    if place.exists():
        load(model, place)
    else:
        save(model, place)
    if double:
        model.double()
    control = int(os.environ.get(CONTROL_VARIABLE, "0"))
    if control:
        from port.weights.torch import move_last_places

        move_last_places(model, seed=control, units=CONTROL_UNITS if double else None)


def initial_weights(path: Path | str | None = None, *, wait: float = 120.0) -> Path:
    """Return the path of the initial weights, once the PyTorch side has written them.

    Args:
        path: where to look if the script was not started by ``port train``.
        wait: seconds to wait for them.

    Raises:
        NoLauncher: not started by ``port train``, and no path.
        BrokenWeights: they were not there in time.
    """
    place = _place(path)
    give_up = time.monotonic() + wait
    while not place.exists():
        if time.monotonic() > give_up:
            raise BrokenWeights(
                f"no initial weights at {place} after {wait:.0f} s: the PyTorch script shares them with "
                "port.share_initial_weights(model), before it trains"
            )
        time.sleep(0.02)
    return place


def find_initial_weights(path: Path | str) -> Path | None:
    """`initial_weights` under ``port train``; alone, the file at ``path`` if there is one, else None."""
    if INITIAL_VARIABLE in os.environ:
        return initial_weights()
    return Path(path) if Path(path).exists() else None


def save_final_weights(
    model: Any, path: Path | str | None = None, *, mapping: Mapping | Path | str | None = None
) -> None:
    """Save a trained model's weights (torch or nnx) where the launcher sets, for the verdict to compare.

    Args:
        model: the trained model; for torch, also its state dict, such as FSDP's ranks gather.
        path: where to write if the script was not started by ``port train``.
        mapping: from torch's keys to an nnx model's paths, if the model itself does not define them; or its file.

    Raises:
        NoLauncher: not started by ``port train``, and no path.
    """
    save(model, _place(path, FINAL_VARIABLE), mapping=mapping)


def _place(path: Path | str | None, variable: str = INITIAL_VARIABLE) -> Path:
    launched = os.environ.get(variable)
    chosen = launched if launched is not None else path
    if chosen is None:
        raise NoLauncher(
            "the weights have no path: start the script with `port train --torch-script … --jax-script …`, or pass one"
        )
    return Path(chosen)
