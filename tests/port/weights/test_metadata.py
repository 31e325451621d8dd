"""What a file says of itself does not get into the way of Flax's, numpy's and Orbax's own readers."""

from __future__ import annotations

from pathlib import Path

import flax.serialization
import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
from flax import linen

from port.errors import BrokenWeights
from port.weights.checkpoint import Tensor, open_checkpoint, write_checkpoint
from port.weights.metadata import NAME

KERNEL = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
X = np.ones((2, 3), np.float32)


def write(path: Path, format: str) -> None:
    tensor = Tensor("params.kernel", KERNEL.shape, KERNEL.dtype, lambda: KERNEL)
    write_checkpoint(path, [tensor], format=format, metadata={"format": "flax", "told": "ü" * 50})


def test_flax_reads_msgpack_with_a_template_and_without(tmp_path: Path) -> None:
    write(tmp_path / "w.msgpack", "msgpack")
    content = (tmp_path / "w.msgpack").read_bytes()
    layer = linen.Dense(4, use_bias=False)
    template = {"params": {"kernel": np.zeros((3, 4), np.float32)}}
    np.testing.assert_array_equal(flax.serialization.from_bytes(template, content)["params"]["kernel"], KERNEL)
    variables = flax.serialization.msgpack_restore(content)
    assert set(variables) == {"params", NAME.partition(".")[0]}
    expected = layer.apply({"params": {"kernel": KERNEL}}, X)
    np.testing.assert_array_equal(jax.jit(layer.apply)(variables, X), expected)


def test_numpy_reads_npz(tmp_path: Path) -> None:
    write(tmp_path / "w.npz", "npz")
    with np.load(tmp_path / "w.npz", allow_pickle=False) as loaded:
        assert list(loaded) == ["params.kernel", NAME]
        assert loaded[NAME].dtype == np.uint8


def test_orbax_reads_its_folder_with_a_template_and_without(tmp_path: Path) -> None:
    write(tmp_path / "w", "orbax")
    template = {"params": {"kernel": jax.ShapeDtypeStruct((3, 4), np.float32)}}
    with ocp.StandardCheckpointer() as checkpointer:
        for restored in (checkpointer.restore(tmp_path / "w"), checkpointer.restore(tmp_path / "w", template)):
            assert list(restored) == ["params"]
            np.testing.assert_array_equal(restored["params"]["kernel"], KERNEL)


@pytest.mark.parametrize("told", [b"{", b"[]", b'{"a": 1}', b"\xff"])
def test_metadata_that_cannot_be_read_is_told(tmp_path: Path, told: bytes) -> None:
    array = np.frombuffer(told, np.uint8)
    write_checkpoint(tmp_path / "w.npz", [Tensor(NAME, array.shape, array.dtype, lambda: array)], format="npz")
    with pytest.raises(BrokenWeights, match=r"w\.npz: its metadata .* cannot be read"):
        open_checkpoint(tmp_path / "w.npz")
