"""Check that a script's models have the shapes from which its JAX side was written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import nn

from port.errors import UsageError
from port.scripts.observation import Observation
from port.scripts.observing.described import tensor_kind
from port.scripts.watched_original import FOLDER


def check_shapes(written: Path, models: Mapping[str, nn.Module]) -> None:
    """Compare the shapes, by the names of the script's models.

    Args:
        written: the folder of the JAX side.
        models: the script's models at training time.

    Raises:
        UsageError: a parameter is missing, unknown, or has another shape; the message says what to do.
    """
    seen = {one["name"]: one["parameters"] for one in Observation.read(written / FOLDER).models}
    for name, model in models.items():
        before = {one["name"]: _shape(one["kind"]) for one in seen.get(name, ())}
        now = {path: _shape(tensor_kind(one)) for path, one in model.named_parameters()}
        if before and before != now:
            path = next(path for path in [*before, *now] if before.get(path) != now.get(path))
            raise UsageError(
                f"{name}.{path} is {now.get(path, 'not there')} with these options, and was "
                f"{before.get(path, 'not there')} when {written} was written: "
                "both sides start from the same weights, so write one for these options: port script SCRIPT --out "
                "FOLDER -- OPTIONS"
            )


def _shape(kind: str) -> str:
    """``(3, 4) float32`` → ``(3, 4)``: a judged run may be in another precision."""
    return kind.rpartition(" ")[0]
