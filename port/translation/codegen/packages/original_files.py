"""Find the original's file that each generated definition comes from."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

from port.translation.frontend.single_layer import SingleLayerModel
from port.translation.structure.program import Program


@dataclass(frozen=True)
class OriginalDefinition:
    """A class or a function of the original.

    Attributes:
        name: its name.
        module: dotted name of the defining module; for a script, the name under which it could be imported.
        file: the path of the module's source; None if the project has none.
        is_own: whether the project defines it, rather than PyTorch or the wrapper of a single layer.
    """

    name: str
    module: str
    file: str | None
    is_own: bool = True


def original_definitions(program: Program) -> dict[str, OriginalDefinition]:
    """Return the name of each generated definition → its original."""
    classes = {made.name: made.original for made, _ in program.written_classes}
    configurations = {made.name: made.original for made in program.configurations}
    functions = {made.name: made.original for part in program.parts for made in part.functions}
    others = {made.name: made.original for part in program.parts for made in part.definitions}
    originals = {**functions, **others, **configurations, **classes}
    return {name: definition_of(original) for name, original in originals.items()}


def definition_of(original: Any) -> OriginalDefinition:
    """Return where a class or a function is defined."""
    original = inspect.unwrap(original)
    if original.__module__.partition(".")[0] == "torch" or original is SingleLayerModel:
        return OriginalDefinition(original.__name__, original.__module__, None, is_own=False)
    file = _file(original)
    return OriginalDefinition(original.__name__, _module(original.__module__, file), file)


def _file(original: Any) -> str | None:
    """Return the path of the source file; None for definitions of a notebook or of ``exec``."""
    try:
        path = inspect.getsourcefile(original)
    except (TypeError, OSError):
        return None
    if path is None or not Path(path).is_file() or not _is_of_a_file(original):
        return None
    return str(Path(path).absolute())


def _is_of_a_file(original: Any) -> bool:
    """Whether a class's methods come from a file; `inspect` itself only checks the class's module."""
    own = [function.__code__.co_filename for function in vars(original).values() if isinstance(function, FunctionType)]
    return not own or dataclasses.is_dataclass(original) or not all(name.startswith("<") for name in own)


def _module(name: str, file: str | None) -> str:
    if name != "__main__" or file is None:
        return name
    spec = getattr(sys.modules[name], "__spec__", None)  # of `python -m package.module`
    return spec.name if spec is not None else Path(file).stem
