"""Both sides compared where a script's options shape the model otherwise."""

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
"""Seconds for one comparison."""

Values = Mapping[str, Mapping[str, Any]]
"""Model → argument of its constructor → value."""


@dataclass(frozen=True)
class OtherShapes:
    """Tries them.

    Attributes:
        options: the values of the script's options.
        translation: of the module from a batch to its loss.
        construct: what constructs that module, given the arguments of its models that are others.
        folder: that has train_step.py and model.py.
        construction: of the written model.
    """

    options: Mapping[str, Any]
    translation: Any
    construct: Callable[[Values], nn.Module]
    folder: Path
    construction: ModelConstruction

    def proved(self, arguments: Sequence[ShapingArgument]) -> list[ShapingArgument]:
        """Those arguments whose options may have other values: all of them at once, or else one by one."""
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
        except (
            Exception
        ):  # at values that nobody gave it the script's own code may do anything: the options keep theirs
            return False
        return True

    def _check_optimized(self, values: Values) -> None:
        """See that the written optimizer has a place for each parameter of the model at other values.

        Raises:
            Exception: its groups name parameters, and others are there; the error is optax's, or ours.
        """
        import jax
        from flax import nnx

        said = {(model, name): repr(value) for model, given in values.items() for name, value in given.items()}
        construction = self.construction.source(said)
        with written_module(self.folder, ["model"]) as written:
            names = vars(sys.modules["model"])

            def state() -> Any:
                model = eval(construction, {**names, "options": {"rngs": nnx.Rngs(0)}})  # our own source
                return written.create(model)[1]

            jax.eval_shape(state)


def smaller(value: Any) -> Any:
    """Another value of an option; what divides it goes on to do so where that can be."""
    if isinstance(value, int):
        return value // 2 if value > 2 and value % 2 == 0 else value + 1
    return value / 2 if value else 0.25


def doubled(value: Any) -> Any:
    """A larger one, if it is an integer."""
    return value * 2 if isinstance(value, int) else smaller(value)
