"""Import a generated package from the texts of its files."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from itertools import count
from types import ModuleType

from port.translation.codegen.module_of_source import LABEL
from port.translation.codegen.packages.places import INIT, dotted_place

_numbers = count()


def loaded_package(files: Mapping[str, str], name: str) -> dict[str, ModuleType]:
    """Import a package; tracebacks show its lines.

    Args:
        files: paths in the package, as ``layers/attention.py`` → texts.
        name: the package's name, for tracebacks.

    Returns:
        Dotted name within the package, ``""`` for the package itself → module.
    """
    label = f"{name}{LABEL}package_{next(_numbers)}"
    paths = {dotted_place(tuple(path.removesuffix(".py").split("/"))): path for path in files}
    finder = _Texts(label, {_inside(label, module): path for module, path in paths.items()}, files)
    sys.meta_path.insert(0, finder)
    try:
        return {module: import_module(_inside(label, module)) for module in sorted(paths)}
    finally:
        sys.meta_path.remove(finder)
        for module in [module for module in sys.modules if module == label or module.startswith(f"{label}.")]:
            del sys.modules[module]


def _inside(package: str, module: str) -> str:
    return f"{package}.{module}" if module else package


class _Texts(MetaPathFinder, Loader):
    """A finder and loader of modules whose texts are in memory."""

    def __init__(self, label: str, paths: Mapping[str, str], texts: Mapping[str, str]) -> None:
        self.label, self.paths, self.texts = label, paths, texts

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self.paths:
            return None
        file = self.paths[fullname]
        return spec_from_loader(fullname, self, is_package=file.rpartition("/")[2] == f"{INIT}.py")

    def exec_module(self, module: ModuleType) -> None:
        path = self.paths[module.__name__]
        text = self.texts[path]
        module.__file__ = f"<{self.label}>/{path}"
        linecache.cache[module.__file__] = (len(text), None, text.splitlines(keepends=True), module.__file__)
        exec(compile(text, module.__file__, "exec"), vars(module))
