"""Building the Flax twin of a torch layer: the same hyperparameters, without weights."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

from port.errors import NoPair
from port.pairs.pair import LayerPair, name_of
from port.pairs.registry import pairs_of_torch, resolve


def twin_pair(module: Any) -> LayerPair:
    """Return the pair of a torch layer and its twin.

    Raises:
        NoPair: the layer has no pair, or cannot be converted; the message gives the reason.
    """
    pairs = pairs_of_torch(module)
    if not pairs:
        raise NoPair(f"there is no pair for {name_of(type(module))}: write one and pass it to port.register")
    why = pairs[0].unfit(module)
    if why is not None:
        raise NoPair(f"{name_of(type(module))}: {why}")
    return pairs[0]


def build_twin(module: Any, *, rngs: Any = None, param_dtype: Any = None, dtype: Any = None) -> Any:
    """Build the Flax twin of a torch layer.

    Args:
        module: a torch layer with a pair.
        rngs: `flax.nnx.Rngs` for the twin's initial values; by default with seed 0.
        param_dtype: of its parameters; by default the twin's own.
        dtype: of its computation; by default the twin's own.

    Returns:
        An nnx module with the layer's hyperparameters; or a function of the layer's inputs, with its options bound.

    Raises:
        NoPair: the layer has no pair, or cannot be converted; the message gives the reason.
    """
    pair = twin_pair(module)
    made = resolve(pair.flax)
    # A wrapper gets the twin of the wrapped layer.
    arguments = {
        name: build_twin(value, rngs=rngs, param_dtype=param_dtype, dtype=dtype) if _is_torch_module(value) else value
        for name, value in pair.arguments(module).items()
    }
    if not isinstance(made, type):
        return partial(made, **arguments) if arguments else made
    from flax import nnx

    offered = {
        "rngs": rngs or nnx.Rngs(0),
        "param_dtype": param_dtype,
        "dtype": dtype,
        **{name: initializer.build() for name, initializer in pair.initializers(module).items()},
    }
    # The class's own signature is that of its metaclass.
    taken = inspect.signature(made.__init__).parameters  # type: ignore[misc]
    return made(**arguments, **{name: value for name, value in offered.items() if value is not None and name in taken})


def _is_torch_module(value: Any) -> bool:
    return any(name_of(cls) == "torch.nn.modules.module.Module" for cls in type(value).__mro__)
