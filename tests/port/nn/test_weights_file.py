"""The weights file of a generated model: an error names it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import pytest
from flax import nnx

from port.errors import BrokenWeights
from port.nn import load_on_mesh, load_weights, saved_arguments


def layer() -> nnx.Linear:
    return nnx.Linear(2, 3, rngs=nnx.Rngs(0))


@pytest.mark.parametrize(
    "read",
    [
        lambda path: load_weights(layer(), path),
        lambda path: saved_arguments(path, nnx.Linear, {}),
        lambda path: load_on_mesh(layer, path, jax.make_mesh((1,), ("fsdp",)), {"embed": "fsdp"}),
    ],
    ids=["weights", "arguments", "mesh"],
)
def test_another_file_is_named(tmp_path: Path, read: Callable[[Path], Any]) -> None:
    (tmp_path / "net.pth").write_bytes(b"PK\x03\x04" * 10)
    with pytest.raises(BrokenWeights, match=r"net\.pth is not a safetensors file that can be read: .*port convert$"):
        read(tmp_path / "net.pth")
    with pytest.raises(FileNotFoundError, match=r"gone\.safetensors"):
        read(tmp_path / "gone.safetensors")
