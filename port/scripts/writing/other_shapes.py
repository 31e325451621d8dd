"""Compare both sides with other shapes of the model, set by a script's options."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from port.scripts.writing.model_construction import ModelConstruction
from port.scripts.writing.written_module import written_module

if TYPE_CHECKING:
    from port.scripts.writing.shaping import ShapingArgument

TIME_LIMIT = 60.0
"""The time limit of one comparison, in seconds."""

Values = Mapping[str, Mapping[str, Any]]
"""Model → argument of its constructor → value."""


@dataclass(frozen=True)
class OtherShapes:
    """Tries other values of the options.

    Attributes:
        options: the values of the script's options.
        translation: the translation of the module that computes the loss.
        construct: constructs that module, with some of its models' arguments changed.
        folder: the folder of train_step.py and model.py.
        construction: the written model's construction.
    """

    options: Mapping[str, Any]
    translation: Any
    construct: Callable[[Values], nn.Module]
    folder: Path
    construction: ModelConstruction

    def proved(self, arguments: Sequence[ShapingArgument]) -> list[ShapingArgument]:
        """The arguments whose options may have other values: all of them at once, or else one by one."""
        if self._agrees(arguments, smaller) or self._agrees(arguments, doubled):
            return [*arguments]
        if len(arguments) == 1:
            return []
        found = [one for one in arguments if self._agrees([one], doubled)]
        return found if len(found) == 1 or (found and self._agrees(found, doubled)) else []

    def _agrees(self, arguments: Sequence[ShapingArgument], another: Callable[[Any], Any]) -> bool:
        """Whether both sides agree at other values of their options, and the optimizer takes the model there."""
        named = {name for one in arguments for name in one.expression.options}
        options = {**self.options, **{name: another(self.options[name]) for name in named}}
        values: dict[str, dict[str, Any]] = {}
        try:
            for one in arguments:
                values.setdefault(one.model, {})[one.name] = one.expression.at(options)
            with torch.random.fork_rng(devices=[]):
                proof = self.translation.proof_at(lambda: self.construct(values), time_limit=TIME_LIMIT)
            if not proof.agrees:
                return False
            self._check_optimized(values)
        except Exception:  # the script's code may do anything at untested values: the options then stay fixed
            return False
        return True

    def _check_optimized(self, values: Values) -> None:
        """Check that the written optimizer covers each parameter of the model at other values.

        Raises:
            Exception: its groups name parameters, but the model has others; the error is optax's or port's.
        """
        import jax
        from flax import nnx

        said = {(model, name): repr(value) for model, arguments in values.items() for name, value in arguments.items()}
        construction = self.construction.source(said)
        with written_module(self.folder, ["model"]) as written:
            names = vars(sys.modules["model"])

            def state() -> Any:
                model = eval(construction, {**names, "options": {"rngs": nnx.Rngs(0)}})  # source written by port
                return written.create(model)[1]

            jax.eval_shape(state)


def smaller(value: Any) -> Any:
    """A smaller value of an option, with the same divisors if possible."""
    if isinstance(value, int):
        return value // 2 if value > 2 and value % 2 == 0 else value + 1
    return value / 2 if value else 0.25


def doubled(value: Any) -> Any:
    """A larger value, if it is an integer."""
    return value * 2 if isinstance(value, int) else smaller(value)
