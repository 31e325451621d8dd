"""Another interpreter for a side: what it lacks is said before anything is started."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from port.errors import UsageError
from port.training import check_has_packages, check_has_port, check_may_run, interpreters


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """This Python, as another: under a name of its own, with a `port` of its own first on its path."""
    (tmp_path / "other" / "port").mkdir(parents=True)
    (tmp_path / "other" / "port" / "__init__.py").touch()
    (tmp_path / "other" / "port" / "version.py").write_text('__version__ = "0.0.9"\n')
    path = tmp_path / "python"
    path.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path / "other"} exec {sys.executable} "$@"\n')
    path.chmod(0o755)
    return path


def test_another_version_of_port(python: Path) -> None:
    with pytest.raises(UsageError, match=r"python has port 0\.0\.9, and this is port .* install port"):
        check_has_port(str(python))


def test_no_port(python: Path) -> None:
    (python.parent / "other" / "port" / "version.py").unlink()
    with pytest.raises(UsageError, match=r"has no port, which records its side \(ModuleNotFoundError: .*port"):
        check_has_port(str(python))


def test_the_same_version(python: Path) -> None:
    from port.version import __version__

    (python.parent / "other" / "port" / "version.py").write_text(f"__version__ = {__version__!r}\n")
    check_has_port(str(python))


def test_this_python_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs has port and the packages, wherever they are from; to start another process would only take time."""

    def ask(python: str, code: str) -> tuple[str, str]:
        raise AssertionError(f"{python} is asked")

    monkeypatch.setattr(interpreters, "_answer", ask)
    check_has_port(sys.executable)
    check_has_packages(sys.executable, ("json",), "")
    with pytest.raises(AssertionError, match="is asked"):
        check_has_port("python")


def test_packages(python: Path) -> None:
    check_has_packages(str(python), ("json", "numpy"), "of no consequence")
    with pytest.raises(UsageError, match=r"python has no nothing_of_the_kind: it is needed"):
        check_has_packages(str(python), ("json", "nothing_of_the_kind"), "it is needed")


def test_what_is_no_python(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no Python /no/python that may be run"):
        check_may_run("/no/python")
    (tmp_path / "silent").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "silent").chmod(0o755)
    with pytest.raises(UsageError, match="did not list its packages: it ended with exit code 3"):
        check_has_packages(str(tmp_path / "silent"), ("json",), "")
