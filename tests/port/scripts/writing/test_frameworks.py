"""A framework's own loop: its update is written as any other, and what its loop hides is said."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from port.judging import Status
from port.scripts import Script
from port.scripts.writing_process import write_script

TRAINERS = Path(__file__).parents[1] / "trainers"


@pytest.mark.sweep
def test_lightning_hides_the_epochs(tmp_path: Path) -> None:
    """It hands its step to the optimizer as a closure, which calls it once."""
    pytest.importorskip("lightning")
    shutil.copy(TRAINERS / "lightning_module.py", tmp_path)
    written = write_script(Script(str(tmp_path / "lightning_module.py")), tmp_path / "train_jax")
    assert written.status is Status.AGREE and len(written.losses) == 4, written.reasons
    assert "`trainer.fit(model, train_loader, test_loader)`, runs the epochs in a loop" in written.no_trainer
    source = (tmp_path / "train_jax" / "train_step.py").read_text()
    assert "clip_by_torch_norm(1.0)" in source and "gamma=0.5), 5)" in source
