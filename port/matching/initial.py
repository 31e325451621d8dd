"""The first variables of a Linen model, which are drawn for an input."""

from __future__ import annotations

from typing import Any

from port.errors import UsageError


def initialised(module: Any, torch_module: Any, inputs: Any) -> Any:
    """A Linen module's variables for torch's inputs, in Flax's layout; or in torch's, where it takes only that.

    Args:
        module: the Linen module, unbound.
        torch_module: torch's model, which tells the inputs' layout.
        inputs: torch's, as `port.match` takes them.

    Raises:
        UsageError: a model that does not take the inputs; with its own message.
    """
    import jax

    from port.parity.checking import layout_between
    from port.parity.flax_side import mode_keywords
    from port.parity.given import AS_IT_IS, for_flax, inputs_from
    from port.parity.outputs import Drawn
    from port.parity.torch_side import TorchSide

    given = inputs_from(inputs, "float32")
    side = TorchSide(torch_module, "float32")
    layout = layout_between(side, side.run(given, Drawn(), training=False), given, None)
    keys = dict.fromkeys(("params", "dropout"), jax.random.key(0))
    failed: Exception | None = None
    for way in dict.fromkeys((layout, AS_IT_IS)):
        taken = for_flax(given, way)
        kwargs = {**mode_keywords(module)[False], **taken.kwargs}

        def init(args: Any, given_kwargs: Any, kwargs: Any = kwargs) -> Any:
            return module.init(keys, *args, **{**kwargs, **given_kwargs})

        try:
            return jax.jit(init)(taken.args, taken.kwargs)
        except Exception as error:
            failed = failed or error
    raise UsageError(
        f"the Flax model does not take the inputs ({given.described}): {type(failed).__name__}: {failed}"
    ) from failed
