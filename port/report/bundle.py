"""A report bundle: one zip file with what others need to see why a model does not translate. It holds no weights."""

from __future__ import annotations

import inspect
import json
import shlex
import sysconfig
import traceback
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any

from port.errors import UsageError
from port.training.folder import environment
from port.weights.whole import whole

READ_ME = """The contents of this file, for a report of a model that `port translate` cannot write, or writes wrongly.

{contents}

It holds no weights, no inputs and no data. The sources are whole files: read them before you send them, as they may
contain text that you want to keep private.
"""
LIBRARIES = ("purelib", "platlib", "stdlib", "platstdlib")


@dataclass
class ReportBundle:
    """What is known about a translation so far.

    Attributes:
        command: the arguments of the ``port`` command.
        module: the PyTorch module, once it is built.
        source: the Flax source that was written.
        report: the text of report.md.
    """

    command: Sequence[str]
    module: Any = None
    source: str = ""
    report: str = ""


@contextmanager
def report_bundle(file: Path | None, command: Sequence[str]) -> Iterator[ReportBundle]:
    """Write a bundle when the block ends, with or without an error. Do nothing if ``file`` is None.

    Args:
        file: a new ``.zip``.
        command: the arguments of the ``port`` command.

    Raises:
        UsageError: the file already exists, or is not a ``.zip``.
    """
    bundle = ReportBundle(command)
    if file is None:
        yield bundle
        return
    if file.suffix != ".zip":
        raise UsageError(f"--report-bundle writes a zip file: use a name such as {file.with_suffix('.zip')}")
    failed: Exception | None = None
    with whole(file, overwrite=False, may_replace=lambda folder: False, what="the report bundle") as partial:
        try:
            yield bundle
        except Exception as error:  # re-raised once the bundle is written
            failed = error
        _write(partial, bundle, failed)
    if failed is not None:
        raise failed


def _write(file: Path, bundle: ReportBundle, error: Exception | None) -> None:
    sources, libraries = sources_of(bundle.module)
    texts = {
        "command.txt": shlex.join(["port", *bundle.command]) + "\n",
        "environment.json": json.dumps({**environment(), "libraries": libraries}, indent=2) + "\n",
        "model.txt": f"{bundle.module}\n" if bundle.module is not None else "",
        "error.txt": "".join(traceback.format_exception(error)) if error is not None else "",
        "report.md": bundle.report,
        "written.py": bundle.source,
        **{f"sources/{name}": text for name, text in sources.items()},
    }
    texts = {name: text for name, text in texts.items() if text}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        contents = "\n".join(f"  {name}" for name in sorted(texts))
        archive.writestr("README.txt", READ_ME.format(contents=contents))
        for name, text in texts.items():
            archive.writestr(name, text)


def sources_of(module: Any) -> tuple[dict[str, str], dict[str, str]]:
    """Return the source files that define a module's classes, and the libraries that define the others.

    Args:
        module: a PyTorch module; for None, both results are empty.

    Returns:
        The text of each of the user's own files, keyed by its path relative to the folder that they share; and the
        version of each library.
    """
    files: dict[Path, str] = {}
    libraries: dict[str, str] = {}
    for cls in {type(one): None for one in module.modules()} if module is not None else ():
        for base in cls.__mro__:
            try:
                file = Path(inspect.getsourcefile(base) or "").resolve()
            except (OSError, TypeError):  # a built-in, or typed into an interpreter
                continue
            if _is_of_library(file):
                libraries |= _library(base.__module__.partition(".")[0])
            elif file.is_file():
                files[file] = file.read_text("utf-8", errors="replace")
    names = _short(files)
    return {names[file]: text for file, text in files.items()}, libraries


def _is_of_library(file: Path) -> bool:
    folders = {Path(sysconfig.get_path(name)).resolve() for name in LIBRARIES}
    return any(file.is_relative_to(folder) for folder in folders) or "site-packages" in file.parts


def _library(name: str) -> dict[str, str]:
    """Return a library's version, if it was installed as a package."""
    return {one: version(one) for one in packages_distributions().get(name, [])}


def _short(files: dict[Path, str]) -> dict[Path, str]:
    """Return paths relative to the folder that all files share, since that folder may name a person."""
    if not files:
        return {}
    shared = Path(*_common([file.parent.parts for file in files]))
    return {file: file.relative_to(shared).as_posix() for file in files}


def _common(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    count = 0
    while all(len(one) > count and one[count] == paths[0][count] for one in paths):
        count += 1
    return paths[0][:count]
