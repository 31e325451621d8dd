"""Hook the lines at which a script's loop over steps draws, so that each batch has its own generators.

The script's file is not changed: it is compiled with a call inserted before each of these lines.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Collection
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

from port.errors import UsageError
from port.scripts.observing.lines import owner
from port.scripts.own_draws import OwnDraws, draws_of_batch
from port.scripts.watched_original import LinesOfLoop

TRAINING, EVALUATION = "__port_draws_batch__", "__port_evaluates__"
"""The name of the inserted function, put among Python's builtins, which every module sees."""


class DrawingLines:
    """Installs a batch's generators when the script begins to make it.

    Args:
        lines: the script's drawing lines.
        before: called before a training batch is made.
        step: returns the number of updates made.
        refuse: called with what is wrong with the script.
    """

    def __init__(
        self,
        lines: LinesOfLoop,
        before: Callable[[], object],
        step: Callable[[], int],
        refuse: Callable[[UsageError], object],
    ) -> None:
        self._lines, self._before, self._step, self._refuse = lines, before, step, refuse
        self._used = 0
        self._is_fresh = True  # no line has started the next batch

    def watch(self) -> None:
        """Insert the calls in everything compiled from here on."""
        setattr(builtins, TRAINING, self._draws)
        setattr(builtins, EVALUATION, self._evaluates)
        for name, around in {"source_to_code": self._around_compiling, "get_code": self._around_cache}.items():
            setattr(SourceFileLoader, name, around(getattr(SourceFileLoader, name)))

    def used(self) -> None:
        """Record that the current batch is trained on."""
        self._used += 1
        self._is_fresh = True

    def _draws(self) -> None:
        if self._is_fresh:
            self._is_fresh = False
            self._before()
            draws_of_batch(self._used).begin()

    def _evaluates(self) -> None:
        self._is_fresh = True  # a batch that was begun starts over
        OwnDraws(None, self._step()).begin()

    def _is_it(self, path: str) -> bool:
        return Path(path).name == self._lines.file and owner(path) == "user"

    def _around_compiling(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def source_to_code(loader: Any, data: Any, path: str, **options: Any) -> Any:
            return original(loader, self._with_calls(data) if self._is_it(path) else data, path, **options)

        return source_to_code

    def _around_cache(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def get_code(loader: Any, name: str) -> Any:
            if not self._is_it(loader.path):
                return original(loader, name)
            return loader.source_to_code(loader.get_data(loader.path), loader.path)

        return get_code

    def _with_calls(self, data: bytes) -> ast.Module:
        tree = ast.parse(data)
        try:
            training, evaluation = self._lines.found_in(data.decode("utf-8").splitlines())
        except UsageError as error:
            self._refuse(error)
        else:
            _put(tree, training, TRAINING)
            _put(tree, evaluation, EVALUATION)
        return tree


def _put(tree: ast.AST, lines: Collection[int], name: str) -> None:
    """Insert a call before the statements of some lines."""
    for node in ast.walk(tree):
        found = [getattr(node, part, None) for part in ("body", "orelse", "finalbody")]
        for block in [one for one in found if isinstance(one, list)]:
            for place in reversed([n for n, one in enumerate(block) if one.lineno in lines]):
                call = ast.Expr(ast.Call(ast.Name(name, ast.Load()), [], []))
                block.insert(place, ast.fix_missing_locations(ast.copy_location(call, block[place])))
