"""Training scripts to watch: those that lie in `trainers/`, and short ones of a test's own."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from port.scripts import Observation, Script, observe

TRAINERS = Path(__file__).parent / "trainers"


@cache
def _watched(name: str, folder: Path, arguments: tuple[str, ...]) -> Observation:
    shutil.copy(TRAINERS / f"{name}.py", folder)
    return observe(Script(str(folder / f"{name}.py"), arguments), folder / f"{name}-observed")


@pytest.fixture(scope="session")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Observation]:
    """The observation of a script of `trainers/`; each is run once."""
    folder = tmp_path_factory.mktemp("trainers")
    return lambda name, *arguments: _watched(name, folder, arguments)


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], Script]:
    """A script with this source, in a folder of the test's own."""

    def make(source: str) -> Script:
        (tmp_path / "train.py").write_text(source)
        return Script(str(tmp_path / "train.py"))

    return make
