"""Options for a model's inputs: ``--input`` for each tensor, or ``--inputs`` for a function that returns them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from port.cli.models import called
from port.errors import UsageError
from port.named import named


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
