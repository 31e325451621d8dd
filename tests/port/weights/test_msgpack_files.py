"""Flax's msgpack files: each side reads what the other wrote."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import flax.serialization
import jax.numpy as jnp
import msgpack
import numpy as np
import pytest

from port.errors import BrokenWeights, UsageError
from port.weights import msgpack_files
from port.weights.msgpack_files import open_msgpack, write_msgpack
from port.weights.tensors import Tensor, dtypes

RANDOM = np.random.default_rng(0)
EVERY = {
    f"of.{name}.{len(shape)}": RANDOM.integers(
        0, 2 if name == "bool" else 128, np.prod(shape) * dtype.itemsize, np.uint8
    )
    .view(dtype)
    .reshape(shape)
    for name, dtype in dtypes().items()
    for shape in ((3, 5), (1,), (70, 2, 65))
}


def tensors_of(arrays: dict[str, np.ndarray]) -> list[Tensor]:
    return [Tensor(name, array.shape, array.dtype, lambda array=array: array) for name, array in arrays.items()]


def leaves(tree: Any, name: str = "") -> dict[str, Any]:
    if not isinstance(tree, dict):
        return {name: tree}
    return {
        path: leaf for key, branch in tree.items() for path, leaf in leaves(branch, f"{name}.{key}".lstrip(".")).items()
    }


def assert_same(read: dict[str, np.ndarray], arrays: dict[str, np.ndarray]) -> None:
    assert set(read) == set(arrays)
    for name, array in arrays.items():
        assert (read[name].dtype, read[name].shape) == (array.dtype, array.shape), name
        assert read[name].tobytes() == array.tobytes(), name


def read_all(path: Path) -> dict[str, np.ndarray]:
    with open_msgpack(path) as checkpoint:
        assert checkpoint.format == "msgpack"
        read = {name: checkpoint.read(name) for name in checkpoint.tensors}
        for name, info in checkpoint.tensors.items():
            assert (info.shape, info.dtype) == (read[name].shape, read[name].dtype)
        return read


@pytest.mark.parametrize("chunk", [2**30, 400])
def test_flax_reads_what_we_write(tmp_path: Path, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(msgpack_files, "LARGEST_PIECE", chunk)
    arrays = EVERY | {"t": RANDOM.normal(size=(70, 66)).T, "none": np.zeros((0, 3)), "scalar": np.array(7, np.int64)}
    write_msgpack(tmp_path / "w", tensors_of(arrays))
    assert_same(leaves(flax.serialization.msgpack_restore((tmp_path / "w").read_bytes())), arrays)
    assert_same(read_all(tmp_path / "w"), arrays)


@pytest.mark.parametrize("chunk", [2**30, 400])
def test_we_read_what_flax_writes(tmp_path: Path, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flax.serialization, "MAX_CHUNK_SIZE", chunk)
    tree: dict[str, Any] = {
        "params": {},
        "list": [np.arange(3.0), {"x": np.arange(2)}],
        "by number": {3: {"w": np.ones(2)}},
    }
    for name, array in EVERY.items():
        tree["params"][name.replace(".", "_")] = array
    tree["jax"] = jnp.arange(5, dtype=jnp.bfloat16)
    tree["numpy"] = np.float32(2.5)
    plain = {"step": 3, "rate": 0.1, "name": "é", "none": None, "flag": True, "complex": 1 + 2j, "far": -(2**40)}
    (tmp_path / "w").write_bytes(flax.serialization.msgpack_serialize(tree | {"plain": plain}))
    expected = {f"params.{name.replace('.', '_')}": array for name, array in EVERY.items()}
    expected |= {"list.0": np.arange(3.0), "list.1.x": np.arange(2), "by number.3.w": np.ones(2)}
    expected |= {"jax": np.asarray(tree["jax"]), "numpy": np.asarray(np.float32(2.5))}
    assert_same(read_all(tmp_path / "w"), expected)
    assert set(open_msgpack(tmp_path / "w").left_out) == {f"plain.{name}" for name in plain}


def test_a_read_array_is_the_files_memory(tmp_path: Path) -> None:
    write_msgpack(tmp_path / "w", tensors_of({"a": np.arange(6, dtype=np.uint8)}))
    read = open_msgpack(tmp_path / "w").read("a")
    assert not read.flags.owndata
    assert not read.flags.writeable


def test_names_that_cannot_be_nested(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"'a' and 'a\.b' cannot both be nested"):
        write_msgpack(tmp_path / "w", tensors_of({"a.b": np.ones(2), "a": np.ones(2)}))
    (tmp_path / "w").write_bytes(flax.serialization.msgpack_serialize({"a.b": np.ones(2), "a": {"b": np.ones(2)}}))
    with pytest.raises(BrokenWeights, match=r"two values would both be named 'a\.b'"):
        open_msgpack(tmp_path / "w")


def array(shape: Any, dtype: Any, contents: Any, code: int = 1) -> msgpack.ExtType:
    return msgpack.ExtType(code, msgpack.packb((shape, dtype, contents)))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ([1, 2], "its outermost value is not"),
        (array((2,), "float32", bytes(8)), "its outermost value is not"),
        ({"a": array((2,), "float32", bytes(7))}, "a is float32 of shape .2,.: 8 bytes"),
        ({"a": array((2,), "object", bytes(16))}, "a has the dtype 'object'"),
        ({"a": array((2,), 3, bytes(16))}, "a has the dtype 3"),
        ({"a": array((-2,), "float32", bytes(8))}, "a has the shape"),
        ({"a": array((True, 2), "float32", bytes(8))}, "a has the shape"),
        ({"a": array((0, 2**40, 2**40), "float32", b"")}, "no array can have"),
        ({"a": array((1,) * 65, "float32", bytes(4))}, "a has the shape"),
        ({"a": array("x", "float32", bytes(8))}, "a has the shape"),
        ({"a": msgpack.ExtType(1, msgpack.packb([1, 2]))}, "a must be .shape, dtype, bytes."),
        ({"a": msgpack.ExtType(1, msgpack.packb([1, 2, 3]) + b"\0")}, "a must be .shape, dtype, bytes."),
        ({"a": msgpack.ExtType(1, b"")}, "it ends"),
        ({"a": {"__msgpack_chunked_array__": True}}, "a must have chunks"),
        ({"a": {"__msgpack_chunked_array__": True, "shape": {"0": 2}, "chunks": {"1": 3}}}, "numbered from 0"),
        (
            {
                "a": {
                    "__msgpack_chunked_array__": True,
                    "shape": {"0": 3},
                    "chunks": {"0": array((2,), "int8", bytes(2))},
                }
            },
            "chunks of 2 elements",
        ),
        ({(1, 2): 3}, "keys are text or numbers"),
        ({1: 2, "1": 3}, "occurs twice"),
    ],
)
def test_contents_that_cannot_be(tmp_path: Path, content: Any, reason: str) -> None:
    (tmp_path / "w").write_bytes(msgpack.packb(content))
    with pytest.raises(BrokenWeights, match=f"{tmp_path / 'w'}.*{reason}"):
        open_msgpack(tmp_path / "w")


def test_files_that_are_not_whole(tmp_path: Path) -> None:
    path = tmp_path / "w"
    write_msgpack(path, tensors_of({"a.b": np.arange(5.0), "c": np.arange(3)}))
    whole = path.read_bytes()
    for contents in [whole[:length] for length in range(len(whole))] + [whole + b"\0"]:
        path.write_bytes(contents)
        with pytest.raises(BrokenWeights, match=str(path)):
            open_msgpack(path)


def test_a_dtype_that_is_no_weights(tmp_path: Path) -> None:
    with pytest.raises(BrokenWeights, match="a is <U4"):
        write_msgpack(tmp_path / "w", tensors_of({"a": np.array(["text"])}))


def test_no_torch_is_needed(tmp_path: Path) -> None:
    write_msgpack(tmp_path / "w", tensors_of({"a": np.arange(5.0)}))
    script = "import sys; from port.weights.msgpack_files import open_msgpack; open_msgpack(sys.argv[1]).read('a'); "
    script += "assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "w")], check=True)
