"""Any torch optimizer by its name, or a registered one, in optax; needs no torch."""

from __future__ import annotations

from typing import Any

import optax

from port.errors import UnknownChoice, UsageError
from port.mapping import Mapping, between
from port.optim.layout import in_torch_layout
from port.optim.names import pair_named
from port.optim.options import reason_against
from port.pairs.expression import Expression, Function, Reference


def by_name(name: str, *, model: Any = None, **options: Any) -> optax.GradientTransformationExtraArgs:
    """Make the optax transformation for a torch optimizer's name, with torch's defaults.

    It steps all parameters that it gets: ``nnx.state(model, nnx.Param)`` leaves out `port.nn.Frozen` ones.

    Args:
        name: torch's name in lower case: one of `NAMES`, or that of a registered pair.
        model: the nnx module that is trained, or its mapping from torch's names. Needed for optimizers whose updates
            depend on the parameters' layout (Adafactor, Muon, LBFGS), if it is not torch's.
        options: torch's options, under torch's names: ``lr`` (a number, or a schedule of the count of updates),
            ``momentum``, ``betas``, ``weight_decay`` … Those that do not affect updates (``foreach``, ``fused`` …) are
            accepted as well.

    Raises:
        UnknownChoice: the optimizer, or an option of it, does not exist.
        UsageError: an optimizer without a counterpart; a value that torch rejects.
    """
    pair = pair_named(name)
    if (reason := pair.refused(pair.defaults)) is not None:
        raise UsageError(reason)
    options = {option: value for option, value in options.items() if option not in pair.ignored}
    for option in options:
        if option not in pair.defaults:
            raise UnknownChoice(f"option of {name}", option, pair.defaults)
    values = {**pair.defaults, **options}
    numbers = {option: value for option, value in values.items() if option != "lr" or not callable(value)}
    if (reason := reason_against(pair, numbers)) is not None:
        raise UsageError(f"{pair.torch}: {reason}")
    if callable(values["lr"]) and pair.takes_first_rate:
        values["lr"] = float(values["lr"](0))
    if callable(values["lr"]) and pair.own_count:
        body = Function(("learning_rate",), pair.chain({**values, "lr": Reference("learning_rate")}))
        injected = Expression("optax.inject_hyperparams", (body,))
        transformation = Expression(injected, (), {"learning_rate": values["lr"]}).build()
    else:
        transformation = pair.chain(values).build()
    if model is None or not pair.in_torch_layout:
        return optax.with_extra_args_support(transformation)
    return in_torch_layout(transformation, model if isinstance(model, Mapping) else between(None, model))
