"""A model filled from a file: by its paths, or behind their kinds; everything that does not fit in one message."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from safetensors.numpy import save_file

from port.errors import WeightsMismatch
from port.nn import Buffer, load_weights


class Model(nnx.Module):
    def __init__(self, width: int) -> None:
        self.layer = nnx.Linear(2, width, rngs=nnx.Rngs(0))
        self.mask = Buffer(jnp.ones(3))
        self.dropout = nnx.Dropout(0.5, rngs=nnx.Rngs(0))


KERNEL, BIAS, MASK = np.full((2, 4), 2.0), np.full(4, 3.0), np.full(3, 5.0)
OWN = {"layer.kernel": KERNEL, "layer.bias": BIAS, "mask": MASK}
CONVERTED = {"params.layer.kernel": KERNEL, "params.layer.bias": BIAS}


def write(folder: Path, arrays: dict[str, np.ndarray]) -> Path:
    save_file(arrays, folder / "weights.safetensors")
    return folder / "weights.safetensors"


ELSEWHERE = {"torch_only.norm.num_batches_tracked": np.ones(()), "buffers.position_ids": BIAS}
"""Buffers that only PyTorch's model has."""


@pytest.mark.parametrize(
    ("arrays", "mask"),
    [
        (OWN, 5.0),
        (CONVERTED, 1.0),
        ({**CONVERTED, "buffers.mask": MASK}, 5.0),
        ({**CONVERTED, **ELSEWHERE}, 1.0),
        ({**OWN, "dropout.rngs.count": np.ones(())}, 5.0),
    ],
)
def test_it_is_filled(tmp_path: Path, arrays: dict[str, np.ndarray], mask: float) -> None:
    model = Model(4)
    load_weights(model, write(tmp_path, arrays))
    assert float(model.layer.kernel[0, 0]) == 2 and float(model.layer.bias[0]) == 3 and float(model.mask[0]) == mask
    assert model.layer.kernel.dtype == jnp.float32


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"layer.kernel": KERNEL, "layer.bias": BIAS}, "Model: mask is missing$"),
        ({"params.layer.bias": BIAS}, "layer.kernel is missing$"),
        ({**OWN, "layer.bias": np.zeros(6), "mask": np.zeros(2)}, r"layer.bias has shape \(6,\) in it, .*; mask"),
        ({}, "layer.bias is missing; layer.kernel is missing$"),
        ({**OWN, "more.bias": BIAS}, "Model: the model has no more.bias$"),
        ({**CONVERTED, "params.more.bias": BIAS}, "Model: the model has no params.more.bias$"),
        ({**CONVERTED, "Frozen.more": BIAS}, "Model: the model has no Frozen.more$"),
        ({"torch_only.layer.kernel": KERNEL, "params.layer.bias": BIAS}, "Model: layer.kernel is missing$"),
        # Another model's own file, of which a part has this model's names.
        ({f"encoder.{name}": array for name, array in OWN.items()}, "layer.bias is missing.* no encoder.layer.kernel"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    model = Model(4)
    before = jax.tree.leaves(nnx.state(model, nnx.Param))
    with pytest.raises(WeightsMismatch, match=message):
        load_weights(model, write(tmp_path, arrays))
    assert all(one is other for one, other in zip(before, jax.tree.leaves(nnx.state(model, nnx.Param)), strict=True))


def test_a_variable_may_be_called_as_a_collection(tmp_path: Path) -> None:
    class Named(nnx.Module):
        def __init__(self) -> None:
            self.params, self.kernel = nnx.Linear(2, 4, rngs=nnx.Rngs(0)), nnx.Param(jnp.zeros(3))

    own = {"params.kernel": KERNEL, "params.bias": BIAS, "kernel": MASK}
    for arrays in (own, {f"params.{name}": array for name, array in own.items()}):
        model = Named()
        load_weights(model, write(tmp_path, arrays))
        assert float(model.params.kernel[0, 0]) == 2 and float(model.kernel[0]) == 5


def test_parts_of_two_collections_are_not_one(tmp_path: Path) -> None:
    twice = {**CONVERTED, "batch_stats.layer.bias": BIAS}
    with pytest.raises(WeightsMismatch, match=r"no batch_stats\.layer\.bias"):
        load_weights(Model(4), write(tmp_path, twice))
