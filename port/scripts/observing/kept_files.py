"""Protect files that the script would overwrite: redirect what it saves into the observation's folder.

Otherwise a script watched for four steps would overwrite its user's best model with one of four steps.
"""

from __future__ import annotations

import builtins
import io
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from port.scripts.observing.described import class_name, described, tensor_kind
from port.scripts.observing.lines import caller, here, owner
from port.scripts.observing.session import Session, replace_method

MOST_KEYS = 12


class KeptFiles:
    """Redirects the script's file writes.

    Args:
        session: the script's session.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._folder = session.folder / "saved"
        self._elsewhere: dict[str, str] = {}

    def watch(self) -> None:
        """Watch what is saved, and redirect it."""
        replace_method(torch, "save", self._around_save)
        replace_method(torch, "load", self._around_load)
        opened = self._around_open(builtins.open)
        builtins.open = opened  # type: ignore[assignment]
        io.open = opened
        for name in ("replace", "rename"):
            replace_method(os, name, self._around_move)

    def _around_save(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
            is_path = isinstance(f, str | os.PathLike)
            if not self._session.is_looking:
                return original(obj, f, *args, **kwargs)
            where = here()
            name = os.fspath(f) if is_path else self._asked_for(getattr(f, "name", None))
            self._session.tell("save", where=where, into=name if isinstance(name, str) else None, what=contents(obj))
            with self._session.inside():
                return original(obj, self._aside(Path(f)) if is_path else f, *args, **kwargs)

        return save

    def _around_load(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def load(f: Any, *args: Any, **kwargs: Any) -> Any:
            if self._session.is_looking:
                self._session.tell(
                    "load", file=str(f) if isinstance(f, str | os.PathLike) else getattr(f, "name", None)
                )
            with self._session.inside():
                return original(self._found(f), *args, **kwargs)

        return load

    def _around_open(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def opened(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            if self._session.journal.muted or not isinstance(file, str | os.PathLike):
                return original(file, mode, *args, **kwargs)
            is_written = bool(set(mode) & set("wa+"))
            if is_written and os.path.isfile(file) and self._is_scripts():
                return original(self._aside(Path(os.fspath(file)), copied="w" not in mode), mode, *args, **kwargs)
            return original(self._found(file), mode, *args, **kwargs)

        return opened

    def _around_move(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def move(source: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
            found = self._elsewhere.pop(_key(source), None) if isinstance(source, str | os.PathLike) else None
            if found is None:
                return original(source, target, *args, **kwargs)
            self._elsewhere[_key(target)] = found
            return None

        return move

    def _is_scripts(self) -> bool:
        """Whether the script writes, itself or through a package: not torch's caches, not port."""
        frame = caller()
        return frame is not None and owner(frame.f_code.co_filename) in ("user", "library")

    def _aside(self, path: Path, *, copied: bool = False) -> str:
        key = _key(path)
        if key not in self._elsewhere:
            self._folder.mkdir(exist_ok=True)
            place = self._folder / path.name
            number = 2
            while place.exists():
                place = self._folder / f"{path.stem}-{number}{path.suffix}"
                number += 1
            if copied:
                shutil.copyfile(path, place)
            self._elsewhere[key] = str(place)
        return self._elsewhere[key]

    def _asked_for(self, name: Any) -> Any:
        """The path that the script opened, if the file was redirected."""
        return next((asked for asked, place in self._elsewhere.items() if place == name), name)

    def _found(self, file: Any) -> Any:
        return self._elsewhere.get(_key(file), file) if isinstance(file, str | os.PathLike) else file


def contents(saved: Any) -> Any:
    """A summary of what is saved: a state dict's size, a checkpoint's entries."""
    if isinstance(saved, dict):
        if saved and all(isinstance(value, torch.Tensor) for value in saved.values()):
            return f"a state dict of {len(saved)} tensors"
        return {str(key): contents(value) for key, value in list(saved.items())[:MOST_KEYS]}
    if isinstance(saved, torch.Tensor):
        return tensor_kind(saved)
    if isinstance(saved, torch.nn.Module):
        return f"the whole module, pickled: {class_name(saved)}"
    return described(saved)


def _key(path: Any) -> str:
    return os.path.realpath(os.fspath(path))
