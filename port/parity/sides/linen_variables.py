"""A Linen module's variables, initialised for an example input or read from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from port.errors import BrokenWeights, UsageError
from port.parity.sides.cotangents import RandomCotangents
from port.parity.sides.flax_side import mode_keywords
from port.parity.sides.inputs import AS_IT_IS, for_flax, inputs_from
from port.parity.sides.layouts import layout_between
from port.parity.sides.torch_side import TorchSide
from port.weights.nesting import nested
from port.weights.sources import opened


def initial_variables(module: Any, torch_module: Any, inputs: Any) -> Any:
    """Initialise a Linen module for torch's inputs in Flax's layout, or unchanged if it accepts only those.

    Args:
        module: the unbound Linen module.
        torch_module: torch's model, which determines the inputs' layout.
        inputs: torch's inputs, as `port.check` takes them.

    Raises:
        UsageError: the model does not take the inputs; quotes its error.
    """
    import jax

    converted = inputs_from(inputs, "float32")
    side = TorchSide(torch_module, "float32")
    layout = layout_between(side, side.run(converted, RandomCotangents(), training=False), converted, None)
    keys = dict.fromkeys(("params", "dropout"), jax.random.key(0))
    failed: Exception | None = None
    for way in dict.fromkeys((layout, AS_IT_IS)):
        taken = for_flax(converted, way)
        kwargs = {**mode_keywords(module)[False], **taken.kwargs}

        def init(args: Any, call_kwargs: Any, kwargs: Any = kwargs) -> Any:
            return module.init(keys, *args, **{**kwargs, **call_kwargs})

        try:
            return jax.jit(init)(taken.args, taken.kwargs)
        except Exception as error:
            failed = failed or error
    raise UsageError(
        f"the Flax model does not take the inputs ({converted.described}): {type(failed).__name__}: {failed}"
    ) from failed


def variables_of_file(path: Path) -> Any:
    """Read variables by collection, as ``port convert`` writes them: ``params.Dense_0.kernel``.

    Raises:
        BrokenWeights: the file cannot be read, or its names do not begin with a Flax collection.
    """
    with opened(path) as tensors:
        tree = nested({name: tensors[name] for name in tensors})
    if "params" not in tree:
        raise BrokenWeights(f"{path} holds no Linen variables: their names would begin with params.; got {min(tree)!r}")
    return tree
