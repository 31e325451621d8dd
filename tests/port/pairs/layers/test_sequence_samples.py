"""Recurrent, attention and transformer layers on torch's own samples: all of its module database has of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

from port.mapping import between
from port.pairs import build_twin

NAMES = (
    *(f"{name}{cell}" for name in ("RNN", "LSTM", "GRU") for cell in ("", "Cell")),
    "MultiheadAttention",
    "TransformerEncoderLayer",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "Transformer",
)
FORWARD, GRADIENTS = 1e-10, 1e-9


# Of these, each holds the layers that are tested by themselves.
WHOLE = ("TransformerEncoder", "TransformerDecoder", "Transformer")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.sweep) if n in WHOLE else n for n in NAMES])
def test_a_sample(name: str, samples: Callable[..., list[Any]], differences: Any) -> None:
    check(name, samples(name, True)[-1], differences, training=True)


@pytest.mark.daily(3)
@pytest.mark.sweep
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_every_sample(
    name: str, training: bool, samples: Callable[..., list[Any]], differences: Any, subtests: pytest.Subtests
) -> None:
    made = samples(name, training)
    assert len(made) >= 2
    for sample in made:
        with subtests.test(f"{sample.constructor_input.args} {sample.constructor_input.kwargs} {sample.desc}"):
            check(name, sample, differences, training)


def check(name: str, sample: Any, differences: Any, training: bool) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "enable_nested_tensor is True, but", UserWarning)
        made = getattr(torch.nn, name)(*sample.constructor_input.args, **sample.constructor_input.kwargs)
    made.double().train(training)
    generator = np.random.default_rng(1)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.from_numpy(generator.normal(0.1, 0.6, parameter.shape)))
    twin = nnx.eval_shape(partial(build_twin, made, param_dtype=jnp.float64))
    weights = between(made, twin)({key: tensor.detach().numpy() for key, tensor in made.state_dict().items()})
    variables = {".".join(map(str, path)): leaf for path, leaf in nnx.to_flat_state(nnx.state(twin, nnx.Param))}
    assert weights.keys() == variables.keys()
    for path, variable in variables.items():
        variable.set_value(jnp.asarray(weights[path]))
    (twin.train if training else twin.eval)()
    seen = differences(
        made,
        twin,
        *map(as_numpy, sample.forward_input.args),
        gradients=training,
        **{key: as_numpy(value) for key, value in sample.forward_input.kwargs.items()},
    )
    for what, difference in seen.items():
        assert difference < (GRADIENTS if what.startswith("gradient") else FORWARD), (what, difference)


def as_numpy(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(as_numpy, value))
    return value.detach().numpy() if isinstance(value, torch.Tensor) else value
