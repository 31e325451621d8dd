"""The lessons there are: pairs of files of one name, in reading order."""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from port.errors import UnknownChoice, UsageError
from port.lessons.source import SourceText, read_source

# One builds on another. A lesson that is not named here comes behind them.
READING_ORDER = (
    "basics",
    "model",
    "data",
    "optimizer",
    "train",
    "parallel",
    "accumulate",
    "linear_regression",
    "checkpoint",
    "mixed_precision",
    "script",
    "own",
    "replicas",
    "processes",
)


@dataclass(frozen=True)
class Lesson:
    """A file in PyTorch, and its twin in JAX."""

    name: str
    torch: Path
    jax: Path

    def sources(self) -> tuple[SourceText, SourceText]:
        """Both files, named from the folder that holds the lessons."""
        root = self.torch.parents[2]
        torch, jax = (read_source(path, path.relative_to(root).as_posix()) for path in (self.torch, self.jax))
        return torch, jax

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
    """All lessons of a folder, in reading order; of ``side_by_side`` if none is given, which is not imported."""
    folder = folder or _side_by_side()
    found = [
        Lesson(path.stem, path, folder / "jax" / path.name)
        for path in sorted((folder / "pytorch").glob("*.py"))
        if not path.name.startswith("_") and (folder / "jax" / path.name).is_file()
    ]
    places = {name: place for place, name in enumerate(READING_ORDER)}
    return sorted(found, key=lambda lesson: places.get(lesson.name, len(places)))


def find_lesson(name: str, folder: Path | None = None) -> Lesson:
    """The lesson of that name; a hyphen is as good as an underscore.

    Raises:
        UnknownChoice: there is none; names those there are, the nearest first.
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
    raise UsageError("the lessons are not here: they are in the package side_by_side, which is installed beside port")
