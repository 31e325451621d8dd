"""A fork server imports what the loaders' workers need, and nothing that lies beside the script."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from port.scripts import Observation
from port.scripts.writing.loader_workers import JAX_SIDE, preloaded, workers_pieces


@dataclass
class Loop:
    """Of a script: the file, and the imports that are taken over."""

    file: Path
    taken: Any = field(default_factory=SimpleNamespace)


def modules(folder: Path, lines: str, workers: int) -> tuple[str, ...]:
    loop = Loop(folder / "train.py", SimpleNamespace(definitions=ast.parse(lines).body, body=[]))
    return preloaded(cast(Any, loop), Observation({}, loaders=[{"name": "loader", "workers": workers}]))


def test_packages_are_imported_and_the_scripts_own_files_are_not(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("")
    lines = (
        "import os.path, torch, torchvision.transforms as T\nfrom mine import Points\nfrom sklearn import datasets\n"
    )
    assert modules(tmp_path, lines, 2) == (*JAX_SIDE, "torchvision", "sklearn")
    assert modules(tmp_path, lines, 0) == ()


def test_nothing_is_written_where_there_are_no_workers() -> None:
    assert set(workers_pieces(()).values()) == {""}
    assert '"torch", "jax"' in workers_pieces(JAX_SIDE)["forks"]
