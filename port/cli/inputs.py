"""Options for a model's inputs: ``--input`` for each tensor, or ``--inputs`` for a function that returns them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from port.cli.models import called
from port.errors import UsageError
from port.named import named, named_shape, too_large


def inputs_from_options(shapes: Sequence[str], function: str | None) -> Any:
    """Return a tuple of positional arguments, or a dict of arguments by name.

    Args:
        shapes: ``1,3,224,224`` or ``1,16:int64``, one for each tensor.
        function: ``module:name`` of a function that returns them, instead of shapes.

    Raises:
        UsageError: an invalid shape, a function that does not exist or fails, or one that returns both kinds of
        arguments.
    """
    from port.translation.frontend.example_inputs import arguments, drawn

    if function is None:
        return drawn(*shapes)[0]
    args, kwargs = arguments(called(named(function, "--inputs"), {}, function, "--inputs"))
    if args and kwargs:
        raise UsageError("--inputs returns both positional arguments and some by name; return all of them by name")
    return kwargs or args


def arrays_from_options(shapes: Sequence[str], function: str | None) -> Any:
    """The same without torch: arrays of numpy's for the shapes, or what the function gives.

    Raises:
        UsageError: no shape, no dtype of numpy's, a shape that does not fit into memory, no such function, or one that
        fails.
    """
    if function is not None:
        return called(named(function, "--inputs"), {}, function, "--inputs")
    random = np.random.default_rng(0)

    def array(text: str) -> np.ndarray:
        sizes, name = named_shape(text)
        try:
            dtype = np.dtype(name)
        except TypeError as error:
            raise UsageError(f"an input is a shape, or one with a dtype, as in 1,16:int64; got {text!r}") from error
        is_whole = dtype.kind in "iub"  # 0 or 1: indices into any table that has two rows
        try:
            drawn = random.integers(0, 2, sizes) if is_whole else random.standard_normal(sizes)
        except (MemoryError, ValueError) as error:  # ValueError: more numbers than numpy can count
            raise too_large(text, sizes) from error
        return np.asarray(drawn).astype(dtype)

    return tuple(array(text) for text in shapes)
