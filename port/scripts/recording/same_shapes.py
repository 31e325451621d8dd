"""Whether a script's models have the shapes of those that its JAX side was written of."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import nn

from port.errors import UsageError
from port.scripts.observation import Observation
from port.scripts.observing.described import tensor_kind
from port.scripts.watched_original import FOLDER


def check_shapes(written: Path, models: Mapping[str, nn.Module]) -> None:
    """Compare them, by the names of the script's models.

    Args:
        written: the folder of the JAX side.
        models: the script's, where they are trained.

    Raises:
        UsageError: a parameter is missing, is another, or is in another shape; says what to do.
    """
    seen = {one["name"]: one["parameters"] for one in Observation.read(written / FOLDER).models}
    for name, model in models.items():
        before = {one["name"]: one["kind"].split(") ")[0] for one in seen.get(name, ())}
        now = {path: tensor_kind(one).split(") ")[0] for path, one in model.named_parameters()}
        if before and before != now:
            path = next(path for path in [*before, *now] if before.get(path) != now.get(path))
            shapes = [f"{shapes[path]})" if path in shapes else "not there" for shapes in (before, now)]
            raise UsageError(
                f"{name}.{path} is {shapes[1]} with these options, and was {shapes[0]} when {written} was written: "
                "both sides begin with the same weights, so write one for these options: port script SCRIPT --out "
                "FOLDER -- OPTIONS"
            )
