"""A folder that `port translate --logical-axes` wrote, loaded onto eight virtual devices: each has its parts alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .eight_devices import told_on_eight_devices

pytestmark = pytest.mark.sweep

EXACT = 1e-9
"""Of logits in float64, against the original's."""
NORMS = 5 * 64 * 8
"""Bytes of the norms' scales, which tensor parallelism does not divide."""


def loaded(folder: Path, *options: str) -> Any:
    return told_on_eight_devices("loaded_on_meshes.py", str(folder / "ported"), *options)


@pytest.mark.parametrize("options", [(), ("--scan",)], ids=["list", "scan"])
def test_each_device_reads_and_holds_its_parts(options: tuple[str, ...], tmp_path: Path) -> None:
    told = loaded(tmp_path, *options)
    assert told["is_stack"] is ("--scan" in options)
    for mesh, divided, share in (("fsdp", 8, 8), ("fsdp+tensor", 8, 4), ("data+fsdp", 4, 4)):
        run = told["meshes"][mesh]
        assert run["whole"] == [], mesh
        assert run["most read at once"] == 1 / share, mesh
        assert run["bytes"] == [(run["of"] - NORMS) // divided + NORMS // share] * 8, mesh
        assert run["logits"] <= EXACT, mesh


def test_what_stays_whole_and_what_is_another_number_are_found(tmp_path: Path) -> None:
    told = loaded(tmp_path, "--rules", json.dumps({"embed": None}), "--other", "norm.weight")
    for mesh, run in told["meshes"].items():
        assert "norm.weight" in run["whole"], mesh
        assert run["most read at once"] == 1, mesh
        assert run["bytes"][0] > run["of"] / 4, mesh
        assert run["logits"] > 100 * EXACT, mesh
