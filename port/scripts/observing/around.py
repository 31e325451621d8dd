"""Watch what surrounds the training: options, seeds, what is printed, logged and saved, threads and processes."""

from __future__ import annotations

import argparse
import builtins
import logging
import random
import sys
import threading
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import Any

import numpy as np
import torch

from port.scripts.observing.described import class_name, described
from port.scripts.observing.lines import caller, here, owner
from port.scripts.observing.session import Session, replace_method

LONGEST_PRINT = 500
LONGEST_HELP = 300


def watch_surroundings(session: Session) -> None:
    """Install all of this module's hooks."""
    _watch_options(session)
    _watch_seeds(session)
    _watch_prints(session)
    _watch_others(session)
    replace_method(torch, "compile", lambda original: _reporting(session, original, "compile"))
    for name in ("register_full_backward_hook", "register_full_backward_pre_hook"):
        replace_method(torch.nn.Module, name, lambda original: _reporting(session, original, "gradient hook"))


def _reporting(session: Session, original: Callable[..., Any], kind: str) -> Callable[..., Any]:
    def called(*args: Any, **kwargs: Any) -> Any:
        if _is_scripts(session):
            session.tell(kind)
        return original(*args, **kwargs)

    return called


def _watch_options(session: Session) -> None:
    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def parse(self: argparse.ArgumentParser, *args: Any, **kwargs: Any) -> Any:
            result = original(self, *args, **kwargs)
            if _is_scripts(session):
                values = vars(result[0]) if isinstance(result, tuple) else vars(result)
                session.tell(
                    "options",
                    description=self.description,
                    options=[_option(action) for action in self._actions if action.dest != "help"],
                    given={name: described(value) for name, value in values.items()},
                )
            return result

        return parse

    # parse_args calls parse_known_args: a call from Python's standard library is not the script's.
    for name in ("parse_args", "parse_known_args"):
        replace_method(argparse.ArgumentParser, name, around)


def _option(action: argparse.Action) -> dict[str, Any]:
    kind = action.type
    return {
        "name": action.dest,
        "flags": list(action.option_strings),
        "type": getattr(kind, "__name__", str(kind)) if kind is not None else None,
        "action": type(action).__name__.strip("_").removesuffix("Action"),
        "default": described(action.default),
        "choices": described(list(action.choices)) if action.choices is not None else None,
        "nargs": action.nargs,
        "required": action.required,
        "metavar": described(action.metavar),
        "help": action.help[:LONGEST_HELP] if action.help else None,
    }


def _watch_seeds(session: Session) -> None:
    homes: list[tuple[Any, str, str]] = [
        (torch, "manual_seed", "torch.manual_seed"),
        (torch.cuda, "manual_seed_all", "torch.cuda.manual_seed_all"),
        (np.random, "seed", "numpy.random.seed"),
        (np.random, "default_rng", "numpy.random.default_rng"),
        (random, "seed", "random.seed"),
    ]
    for home, name, called in homes:

        def around(original: Callable[..., Any], called: str = called) -> Callable[..., Any]:
            def seed(*args: Any, **kwargs: Any) -> Any:
                if _is_scripts(session) or (called == "torch.manual_seed" and session.is_looking and not _is_torchs()):
                    session.tell("seed", function=called, seed=described(args[0]) if args else None)
                return original(*args, **kwargs)

            return seed

        replace_method(home, name, around)


def _watch_prints(session: Session) -> None:
    def around_print(original: Callable[..., Any]) -> Callable[..., Any]:
        def show(*args: Any, **kwargs: Any) -> Any:
            if session.is_looking and _is_users():
                where = here()
                with session.inside():
                    printed = kwargs.get("sep") or " "
                    text = printed.join(map(str, args))[:LONGEST_PRINT]
                    session.tell("print", where=where, printed=text)
            return original(*args, **kwargs)

        return show

    def around_log(original: Callable[..., Any]) -> Callable[..., Any]:
        def handle(self: logging.Logger, record: logging.LogRecord) -> Any:
            if session.is_looking and owner(record.pathname) == "user":
                session.tell("log", printed=record.getMessage()[:LONGEST_PRINT], level=record.levelname)
            return original(self, record)

        return handle

    replace_method(builtins, "print", around_print)
    replace_method(logging.Logger, "handle", around_log)


def _watch_others(session: Session) -> None:
    """Watch the threads and processes that the script starts; what they train is not watched."""

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def start(self: threading.Thread) -> Any:
            if _is_scripts(session):
                session.tell("thread", target=described(getattr(self, "_target", None)) or class_name(self))
            return original(self)

        return start

    def audit(name: str, args: tuple[Any, ...]) -> None:
        is_start = name in ("os.fork", "subprocess.Popen", "os.posix_spawn")
        if is_start and session.is_looking and not session.is_elsewhere and not sys.is_finalizing():
            session.tell("process", command=str(args[1])[:LONGEST_PRINT] if len(args) > 1 else None)

    def around_process(original: Callable[..., Any]) -> Callable[..., Any]:
        def start(self: BaseProcess) -> Any:
            if session.is_looking and not session.is_elsewhere:
                session.tell("process", command=described(getattr(self, "_target", None)))
            with session.inside():
                return original(self)

        return start

    replace_method(threading.Thread, "start", around)
    replace_method(BaseProcess, "start", around_process)
    sys.addaudithook(audit)


def _is_scripts(session: Session) -> bool:
    return session.is_looking and _is_users()


def _is_torchs() -> bool:
    frame = caller()
    return frame is None or owner(frame.f_code.co_filename) == "torch"


def _is_users() -> bool:
    frame = caller()
    return frame is not None and owner(frame.f_code.co_filename) == "user"
