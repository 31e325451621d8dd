"""Tables in a file beside the source: read once, when they are asked for; a sentence where they are not."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import save_file

from port.errors import NoInitialValue
from port.nn import Tables, filled_later

ARRAY = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    save_file({"pe": ARRAY}, tmp_path / "net.tables.safetensors")
    return tmp_path / "net.tables.safetensors"


def test_the_table_itself(path: Path) -> None:
    assert np.array_equal(Tables(path).array("pe", (5, 3), jnp.float32), ARRAY)
    assert Tables(path).initializer("pe")(jax.random.key(0), (5, 3), jnp.float16).dtype == jnp.float16
    assert np.array_equal(jax.jit(lambda: Tables(path).array("pe", (5, 3), jnp.float32))(), ARRAY)


def test_it_is_read_once(path: Path) -> None:
    tables = Tables(path)
    tables.array("pe", (5, 3), jnp.float32)
    path.unlink()
    assert np.array_equal(tables.array("pe", (5, 3), jnp.float32), ARRAY)


@pytest.mark.parametrize(("name", "shape"), [("pe", (3, 5)), ("ep", (5, 3))])
def test_another_table_raises(path: Path, name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(NoInitialValue, match=f"has no {name} of shape"):
        Tables(path).array(name, shape, jnp.float32)


def test_without_the_file(tmp_path: Path) -> None:
    tables = Tables(tmp_path / "net.tables.safetensors")
    with pytest.raises(NoInitialValue, match="is missing: put the file that was written with the source"):
        tables.array("pe", (5, 3), jnp.float32)
    assert jax.eval_shape(lambda: tables.array("pe", (5, 3), jnp.float32)).shape == (5, 3)
    with filled_later():
        assert tables.array("pe", (5, 3), jnp.float32).shape == (5, 3)
