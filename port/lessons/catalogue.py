"""The catalogue of lessons: pairs of files with the same name, in reading order."""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from port.errors import UnknownChoice, UsageError
from port.lessons.source import SourceText, read_source
from port.lessons.written_folder import account_in, is_written_folder, read_written_folder

# Each builds on the one before. A lesson that is not listed here comes after them.
READING_ORDER = (
    "basics",
    "model",
    "data",
    "optimizer",
    "train",
    "parallel",
    "fsdp",
    "accumulate",
    "linear_regression",
    "checkpoint",
    "mixed_precision",
    "script",
    "whole_script",
    "own",
    "replicas",
    "processes",
    "sharded_replicas",
    "sharded_checkpoint",
)


@dataclass(frozen=True)
class Lesson:
    """A PyTorch file and its JAX twin: a file, or the folder that `port script` wrote for it."""

    name: str
    torch: Path
    jax: Path

    def sources(self) -> tuple[SourceText, SourceText]:
        """Both files, named relative to the folder that holds the lessons."""
        root = self.torch.parents[2]
        read = read_written_folder if self.jax.is_dir() else read_source
        return (
            read_source(self.torch, self.torch.relative_to(root).as_posix()),
            read(self.jax, self.jax.relative_to(root).as_posix()),
        )

    def account(self) -> str | None:
        """The account of the PyTorch file, line by line, if `port script` has watched it."""
        return account_in(self.jax) if self.jax.is_dir() else None

    def about(self) -> str:
        """The first sentence of the PyTorch file's docstring."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                text = ast.get_docstring(ast.parse("\n".join(read_source(self.torch).lines))) or ""
        except SyntaxError as error:
            return f"(does not parse, line {error.lineno})"
        paragraph = " ".join(text.partition("\n\n")[0].split())
        sentence = re.match(r".*?\.(?=\s|$)", paragraph)
        return sentence[0] if sentence else paragraph.rstrip(":")


def lessons(folder: Path | None = None) -> list[Lesson]:
    """List all lessons of a folder, in reading order; by default of ``side_by_side``, which is not imported."""
    folder = folder or _side_by_side()
    files = [path for path in sorted((folder / "pytorch").glob("*.py")) if not path.name.startswith("_")]
    twins = [(path, folder / "jax" / name) for path in files for name in (path.name, path.stem)]
    found = [Lesson(path.stem, path, twin) for path, twin in twins if twin.is_file() or is_written_folder(twin)]
    places = {name: place for place, name in enumerate(READING_ORDER)}
    return sorted(found, key=lambda lesson: places.get(lesson.name, len(places)))


def find_lesson(name: str, folder: Path | None = None) -> Lesson:
    """Find a lesson by name; hyphens and underscores are equivalent.

    Raises:
        UnknownChoice: it does not exist; lists the lessons, closest match first.
    """
    there = {lesson.name: lesson for lesson in lessons(folder)}
    wanted = name.replace("-", "_")
    if wanted not in there:
        raise UnknownChoice("lesson", name, there)
    return there[wanted]


def _side_by_side() -> Path:
    spec = find_spec("side_by_side")
    for folder in (spec and spec.submodule_search_locations) or ():
        if (Path(folder) / "pytorch").is_dir():
            return Path(folder)
    raise UsageError("the lessons were not found: they are in the package side_by_side, which is installed with port")
