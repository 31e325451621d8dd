"""Runs one trainer alone, from the command line, with the options of `port train`."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

import tyro

from port.errors import FolderExists, PortError
from side_by_side.config import Config


def run_alone(train: Callable[[Config, str], None]) -> NoReturn:
    """Read the options, train in each requested precision, and print where the records are."""
    if hasattr(signal, "SIGUSR1"):  # `port train` asks a hanging trainer for its stack
        faulthandler.register(signal.SIGUSR1, all_threads=True)
    config = tyro.cli(Config, description=sys.modules["__main__"].__doc__)
    try:
        for precision in config.precisions:
            train(config, precision)
    except PortError as error:
        advice = " (--out names another folder)" if isinstance(error, FolderExists) else ""
        print(f"{error}{advice}", file=sys.stderr)
        _leave(error.exit_code, at_once=config.processes > 1)
    except Exception:
        traceback.print_exc()
        _leave(1, at_once=config.processes > 1)
    print(f"the records and weights are in {config.file()}")
    # A gloo thread that releases a tensor while the interpreter ends aborts the process: pytorch/pytorch#179291.
    _leave(0, at_once="TORCHELASTIC_RUN_ID" in os.environ)


def _leave(code: int, *, at_once: bool) -> NoReturn:
    """End the process; ``at_once`` if an orderly exit of JAX would wait for the others, which wait for this one."""
    if at_once:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
