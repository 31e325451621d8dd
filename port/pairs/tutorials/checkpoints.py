"""Checkpoints: Flax's own, and Orbax as it was used first."""

from __future__ import annotations

from port.pairs.tutorials.outdated import Fate, Outdated

_STANDARD = """\
import tempfile
from pathlib import Path

import orbax.checkpoint as ocp

with tempfile.TemporaryDirectory() as folder, ocp.StandardCheckpointer() as checkpointer:
    checkpointer.save(Path(folder) / "step", params)
    checkpointer.wait_until_finished()
    result = checkpointer.restore(Path(folder) / "step", params)"""

ROWS = (
    Outdated(
        "T60",
        says="""\
import tempfile

from flax.training import checkpoints

with tempfile.TemporaryDirectory() as folder:
    checkpoints.save_checkpoint(folder, params, step=1)
    result = checkpoints.restore_checkpoint(folder, target=params)""",
        fate=Fate.WORKS,
        happened="Deprecated in words, in favour of Orbax, which writes for it.",
        today=_STANDARD,
        torch="torch.save of a state_dict; a folder instead of a file, and restored into a tree like the one saved.",
    ),
    Outdated(
        "T61",
        says="""\
import tempfile
from pathlib import Path

import orbax.checkpoint as ocp

with tempfile.TemporaryDirectory() as folder:
    checkpointer = ocp.Checkpointer(ocp.PyTreeCheckpointHandler())
    checkpointer.save(Path(folder) / "step", params)
    result = checkpointer.restore(Path(folder) / "step")""",
        fate=Fate.WARNS,
        happened="It warns that it guesses where the arrays go; StandardCheckpointer is given a tree that says so.",
        today=_STANDARD,
        torch="torch.save of a state_dict; a folder instead of a file.",
    ),
)
