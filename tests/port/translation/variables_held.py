"""What a written module holds, found by building it: what its mapping, which nothing is run for, has to say."""

from __future__ import annotations

from collections.abc import Iterable

import jax
from flax import nnx

from port.mapping import TORCH_ONLY, Entry
from port.translation.artifact.written_module import WrittenModule


def variables_held(written: WrittenModule) -> set[str]:
    """Flax's dotted paths of all variables, but for random streams; nothing is computed."""
    state = jax.eval_shape(lambda: nnx.state(written.constructor(rngs=nnx.Rngs(0)), nnx.Not(nnx.RngState)))
    return {".".join(map(str, path)) for path, _ in nnx.to_flat_state(state)}


def targets_of(entries: Iterable[Entry]) -> set[str]:
    """Flax's paths that a mapping fills."""
    return {target for entry in entries if entry.collection != TORCH_ONLY for target in entry.targets}
