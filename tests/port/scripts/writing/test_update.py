"""Scripts whose update is written in JAX and proved on their own batches, and such as are refused with their lines."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from port.judging import Status
from port.scripts import Script
from port.scripts.writing_process import WrittenUpdate, write_script

from ..undefined_names import undefined_names

TRAINERS = Path(__file__).parents[1] / "trainers"


def written(name: str, folder: Path) -> WrittenUpdate:
    shutil.copy(TRAINERS / f"{name}.py", folder)
    return write_script(Script(str(folder / f"{name}.py")), folder / "train_jax")


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gpt", ["jax.lax.scan", "clip_by_torch_norm(1.0)", "lr: jax.Array | float", "lambda update: lr * update"]),
        ("gpt", ["[Block(16, 2, **options) for _ in range(layers)]", "nnx.Linear(width, 3 * width"]),
        ("resnet", ["piecewise_constant_schedule", "images: jax.Array, labels: jax.Array"]),
        ("frozen", ["x: jax.Array, y: jax.Array", "optax.partition"]),
        ("distillation", ["number: jax.Array"]),
        ("mixed", ["clip_by_torch_norm(1.0)", "masks: jax.Array | None = None"]),
        ("noisy", ["masks: jax.Array | None = None", "with shared_masks(model, masks)"]),
        ("carried", ["hidden_1: jax.Array,", "-> tuple[State, jax.Array, list[jax.Array]]"]),
        ("by_hand", ["Gradient descent, which the original writes itself", "lr: jax.Array | float"]),
    ],
)
def test_an_update_that_agrees(name: str, said: list[str], tmp_path: Path) -> None:
    done = written(name, tmp_path)
    assert done.status is Status.AGREE, done
    assert len(done.losses) == 4 and len({loss for loss, _ in done.losses}) == 4
    source = "\n".join((tmp_path / "train_jax" / f"{file}.py").read_text() for file in ("train_step", "model"))
    assert not undefined_names(tmp_path / "train_jax")
    assert all(words in source for words in said), source
    readme = (tmp_path / "train_jax" / "README.md").read_text()
    assert f"{name}.py" in readme and "**agree**" in readme
    assert ("Left out, or different" in readme) == bool(done.remarks)
    assert (tmp_path / "train_jax" / "observed" / "observation.json").exists()
    assert (tmp_path / "train_jax" / "model.safetensors").exists()


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("name", "reasons"),
    [
        ("gan", ["gan.py:31, `p.clamp_(-1, 1)` writes weights between the steps of several optimizers"]),
    ],
)
def test_an_update_that_is_not_written_yet(name: str, reasons: list[str], tmp_path: Path) -> None:
    done = written(name, tmp_path)
    assert done.status is None
    assert all(any(words in reason for reason in done.reasons) for words in reasons), done.reasons
    assert sorted(path.name for path in (tmp_path / "train_jax").iterdir()) == ["README.md", "observed"]
