"""The variables of a Linen module: drawn for an example input, or read from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from port.errors import BrokenWeights, UsageError
from port.parity.flax_side import mode_keywords
from port.parity.given import inputs_from
from port.parity.structure import rebuilt


def initial_variables(module: Any, inputs: Any, *, channels_last: bool | None = None) -> Any:
    """Variables drawn with seed 0.

    Args:
        module: a Linen module, unbound.
        inputs: torch's: one tensor or array, a tuple of positional arguments, or a dict of keyword arguments.
        channels_last: whether axis 1 is moved last for Flax; by default of inputs with four axes or more.

    Raises:
        UsageError: the module does not take the inputs; with its own message.
    """
    import jax

    least = {None: 4, True: 3, False: 10**6}[channels_last]

    def in_flaxs(name: str, array: np.ndarray) -> np.ndarray:
        return np.moveaxis(array, 1, -1) if array.ndim >= least and array.dtype != bool else array

    given = inputs_from(inputs, "float32")
    *args, kwargs = rebuilt(given.tree, in_flaxs)
    key = jax.random.key(0)
    try:
        return module.init({"params": key, "dropout": key}, *args, **mode_keywords(module)[False], **kwargs)
    except Exception as error:
        raise UsageError(
            f"the Flax model does not take the inputs ({given.described}): {type(error).__name__}: {error}"
        ) from error


def variables_of_file(path: Path) -> Any:
    """Variables by collection, as ``port convert`` writes them: ``params.Dense_0.kernel``.

    Raises:
        BrokenWeights: the file cannot be read, or its names begin with no collection of Flax's.
    """
    from port.weights.nesting import nested
    from port.weights.sources import opened

    with opened(path) as tensors:
        tree = nested({name: tensors[name] for name in tensors})
    if "params" not in tree:
        raise BrokenWeights(f"{path} holds no Linen variables: their names begin with params., got {min(tree)!r}")
    return tree
