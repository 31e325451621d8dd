"""The twin of one torch layer: of the right class, with its hyperparameters, in the dtype that is asked for."""

from __future__ import annotations

from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

from port.errors import NoPair
from port.pairs import LayerPair, build_twin, registered, twin_pair


@pytest.mark.sweep
def test_it_is_of_the_first_pairs_class_with_the_layers_hyperparameters():
    twin = build_twin(torch.nn.Conv2d(4, 6, (3, 2), stride=2, padding=1, groups=2, bias=False))
    assert type(twin) is nnx.Conv
    assert (twin.kernel.shape, twin.strides, twin.padding, twin.bias) == ((3, 2, 2, 6), (2, 2), ((1, 1), (1, 1)), None)
    assert twin_pair(torch.nn.Linear(2, 3)).flax == "flax.nnx.Linear"


def test_dtypes_and_random_streams_are_passed_on():
    layer = torch.nn.Linear(2, 3)
    twin = build_twin(layer, rngs=nnx.Rngs(1), param_dtype=jnp.float16, dtype=jnp.float32)
    assert (twin.kernel.dtype, twin.dtype) == (jnp.float16, jnp.float32)
    kernels = [build_twin(layer, rngs=nnx.Rngs(seed)).kernel[...] for seed in (1, 1, 2)]
    np.testing.assert_array_equal(kernels[0], kernels[1])
    assert (kernels[0] != kernels[2]).any()


def test_the_initial_values_are_drawn_as_torchs_are():
    kernel = np.asarray(build_twin(torch.nn.Linear(4, 2000)).kernel[...])
    assert np.abs(kernel).max() <= 0.5  # uniform within 1/√4
    assert np.abs(kernel).max() > 0.49
    lecun = np.asarray(nnx.Linear(4, 2000, rngs=nnx.Rngs(0)).kernel[...])
    assert np.abs(lecun).max() > 0.5  # the planted fault: Flax's own


def test_a_function_gets_its_options():
    twin = build_twin(torch.nn.L1Loss(reduction="sum"))
    assert isinstance(twin, partial)
    assert float(twin(jnp.array([1.0, 4.0]), jnp.array([0.0, 2.0]))) == 3


def test_a_layer_that_no_pair_speaks_of_is_named():
    class Own(torch.nn.Module):
        pass

    with pytest.raises(NoPair, match=r"there is no pair for .*Own: write one and pass it to port\.register"):
        build_twin(Own())


def test_a_layer_that_cannot_be_moved_is_refused_with_the_reason(monkeypatch):
    pair = LayerPair("torch.nn.Linear", "flax.nnx.Linear", unfit=lambda module: f"it has {module.out_features} outputs")
    monkeypatch.setattr(registered, "_pairs", [pair])
    with pytest.raises(NoPair, match=r"Linear: it has 3 outputs"):
        build_twin(torch.nn.Linear(2, 3))
