"""Run the user's script as Python would: as ``__main__``, with its arguments, and only its frames in tracebacks."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType, TracebackType

from port.errors import PortError
from port.scripts.observing.lines import owner

FAULT = 70
"""The exit code if port's code failed: EX_SOFTWARE of sysexits.h."""


OPENING = {"opened", "save", "load", "move"}
"""Functions of `kept_files` that open, save or move a file for the script."""


def run_file(path: str, arguments: list[str]) -> None:
    """What ``python FILE ARGUMENTS`` does."""
    file = Path(path)
    sys.argv = [path, *arguments]
    sys.path.insert(0, str(file.resolve().parent))
    loader = SourceFileLoader("__main__", path)
    main = ModuleType("__main__")
    main.__dict__.update(__file__=path, __loader__=loader, __builtins__=__builtins__, __spec__=None, __cached__=None)
    sys.modules["__main__"] = main
    exec(loader.source_to_code(file.read_bytes(), os.path.abspath(path)), main.__dict__)


def run_module(name: str, arguments: list[str]) -> None:
    """What ``python -m NAME ARGUMENTS`` does."""
    sys.argv = [name, *arguments]
    sys.path.insert(0, os.getcwd())
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def as_a_script(run: Callable[[], object]) -> int:
    """Run it and return its exit code. Its errors are printed as Python prints them, without port's frames."""
    try:
        run()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException as error:
        if isinstance(error, PortError):  # a refusal by port, with a message
            print(f"port: {error}", file=sys.stderr)
            return error.exit_code
        if _is_a_fault_of_ours(error):
            sys.excepthook(type(error), error, error.__traceback__)
            return FAULT
        _hide_ours(error)
        sys.excepthook(type(error), error, error.__traceback__)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _is_a_fault_of_ours(error: BaseException) -> bool:
    """Whether port failed, not the script: a file that the script opens may be missing."""
    trace, last = error.__traceback__, None
    while trace is not None:
        last, trace = trace.tb_frame.f_code, trace.tb_next
    is_ours = last is not None and owner(last.co_filename) == "ours"
    opens_the_scripts = is_ours and last is not None and last.co_name in OPENING and isinstance(error, OSError)
    return is_ours and not opens_the_scripts and not isinstance(error, KeyboardInterrupt | StopIteration)


def _hide_ours(error: BaseException) -> None:
    """Remove port's frames, and runpy's above the script's first, from an error's traceback and its causes'."""
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        one = pending.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            one.__traceback__ = _without_ours(one.__traceback__)
            pending += [one.__cause__, one.__context__]


def _without_ours(trace: TracebackType | None) -> TracebackType | None:
    kept: list[TracebackType] = []
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        is_above = not kept and ("runpy" in file or file.startswith("<frozen importlib"))
        if file.endswith("torch/overrides.py") and kept and owner(kept[-1].tb_frame.f_code.co_filename) == "torch":
            kept.pop()  # the function itself, calling us
        elif owner(file) != "ours" and not is_above and not file.endswith("torch/overrides.py"):
            kept.append(trace)
        trace = trace.tb_next
    rest = None
    for one in reversed(kept):
        rest = TracebackType(rest, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return rest
