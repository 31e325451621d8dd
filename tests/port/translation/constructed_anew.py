"""A written class at other arguments than it was translated with, beside the original at those."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import torch
from flax import nnx
from torch import nn

import port
from port.parity.compare.distance import difference
from port.translation import Translation

OPTIONS = ("dtype", "param_dtype", "rngs")


def taken(translation: Translation, name: str = "") -> dict[str, Any]:
    """The parameters of a written class's constructor, without the options: name → default, ``...`` if it has none."""
    signature = inspect.signature(vars(translation.code)[name or translation.name].__init__)
    parameters = {name: each for name, each in list(signature.parameters.items())[1:] if name not in OPTIONS}
    return {name: ... if each.default is each.empty else each.default for name, each in parameters.items()}


def classes(translation: Translation) -> str:
    """The written source without the code that makes this very model."""
    return translation.source.partition("\n\n\ndef load(")[0]


def apart(translation: Translation, other: nn.Module, given: Mapping[str, Any], *args: torch.Tensor) -> float:
    """How far the written class is from the original at the same arguments and weights, in either mode, in float64.

    Args:
        translation: of a model at some arguments.
        other: the original at others.
        given: these, as the written class's constructor takes them.
        args: inputs for it.
    """
    weights = port.translate(copy.deepcopy(other), args, check=False).values
    wide = [arg.double() if arg.is_floating_point() else arg for arg in args]
    # The check at the head of the call is of what was translated.
    with mock.patch.object(port.nn.functional, "expect"):
        return max(_apart_in(training, translation, other, given, weights, wide) for training in (False, True))


def _apart_in(
    training: bool,
    translation: Translation,
    other: nn.Module,
    given: Mapping[str, Any],
    weights: Mapping[str, Any],
    args: list[torch.Tensor],
) -> float:
    """The same in one mode."""
    original = copy.deepcopy(other).double().train(training)
    with torch.no_grad():
        theirs = original(*args)
    with jax.enable_x64(True):
        written = _filled(translation, given, weights)
        written.train() if training else written.eval()
        ours = translation.to_torch(written(*translation.to_flax(tuple(args))))
    assert ours.dtype == torch.float64
    assert ours.shape == theirs.shape
    return difference(theirs.numpy(), ours.numpy())


def _filled(translation: Translation, given: Mapping[str, Any], weights: Mapping[str, Any]) -> Any:
    """The written class at some arguments, with weights for everything that it holds."""
    with vars(translation.code).get("filled_later", port.nn.filled_later)():
        made = vars(translation.code)[translation.name](**given, param_dtype=jnp.float64, rngs=nnx.Rngs(0))
    filled = []
    flat = nnx.to_flat_state(nnx.state(made, nnx.Not(nnx.RngState)))
    assert {".".join(map(str, path)) for path, _ in flat} == set(weights)
    for path, variable in flat:
        array = jnp.array(weights[".".join(map(str, path))])
        assert array.shape == variable.shape, path
        filled.append((path, array.astype(variable.dtype)))
    nnx.update(made, nnx.from_flat_state(filled))
    return made
