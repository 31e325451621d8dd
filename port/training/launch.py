"""Starts the processes of a JAX trainer on this machine, as torchrun starts PyTorch's ranks.

    python -m port.training.launch --processes 2 -- python -m side_by_side.jax.train --processes 2 --devices 2

Each process gets its own index and the address of process 0 in JAX_PROCESS_ID and JAX_COORDINATOR_ADDRESS. When one
fails, the others are ended, and it is named. Across machines, use a cluster's launcher: Slurm, a TPU pod.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

from port.training.signals import how_it_ended

POLL_SECONDS = 0.01  # two failures further apart than this are seen in order
ASK_SECONDS = 2.0  # between SIGTERM and SIGKILL


def launch(command: Sequence[str], processes: int) -> int:
    """Run ``command`` in several processes; return 0, or the exit code of the first that failed (1 for a signal)."""
    address = f"127.0.0.1:{_free_port()}"
    started: list[subprocess.Popen[bytes]] = []
    try:
        for rank in range(processes):
            environment = {**os.environ, "JAX_COORDINATOR_ADDRESS": address, "JAX_PROCESS_ID": str(rank)}
            started.append(subprocess.Popen(command, env=environment))
        while True:
            codes = [process.poll() for process in started]
            failed = [(rank, code) for rank, code in enumerate(codes) if code]
            if failed:
                rank, code = _first_to_fail(failed)
                how = how_it_ended(code)
                print(f"rank {rank} of {processes} was the first to fail: {how}", file=sys.stderr, flush=True)
                return max(code, 1)
            if all(code == 0 for code in codes):
                return 0
            time.sleep(POLL_SECONDS)
    finally:
        # This takes seconds, and a second signal must not leave orphans behind.
        before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _end(started)
        signal.signal(signal.SIGTERM, before)


def _first_to_fail(failed: list[tuple[int, int]]) -> tuple[int, int]:
    """Of processes that were found dead together, choose one that was killed from outside: the others only lost it.

    A process that has lost another aborts.
    """
    killed = [each for each in failed if each[1] in (-signal.SIGKILL, -signal.SIGTERM)]
    by_itself = [each for each in failed if each[1] != -signal.SIGABRT]
    return (killed or by_itself or failed)[0]


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        if process.poll() is None:
            process.terminate()
    give_up = time.monotonic() + ASK_SECONDS
    for process in processes:
        try:
            process.wait(timeout=max(0.0, give_up - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


def _main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, required=True)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if options.processes < 1:
        parser.error(f"--processes must be at least 1, got {options.processes}")
    command = options.command[options.command[:1] == ["--"] :]
    if not command:
        parser.error("there is no command to run: pass it after --")
    # These signals raise in this process, so that the processes that it started are ended too.
    for number in (signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])):
        signal.signal(number, lambda number, frame: sys.exit(128 + number))
    try:
        return launch(command, options.processes)
    except OSError as error:
        parser.error(f"{command[0]} cannot be started: {error}")


if __name__ == "__main__":
    sys.exit(_main())
