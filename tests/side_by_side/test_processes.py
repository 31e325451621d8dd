"""Processes that cannot find one another, and one that fails by itself: JAX's, as torchrun sees to PyTorch's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import pytest

import side_by_side.jax.train as jax_train
from port.errors import UsageError
from side_by_side.config import Config
from side_by_side.jax import processes

TWO = Config(processes=2, time_limit=0.3)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch):
    """Says to this process which one it is; jax is never asked to find the others."""
    monkeypatch.setattr(jax.distributed, "initialize", lambda *told, **more: pytest.fail("jax would crash"))

    def told(address: str, rank: str) -> None:
        monkeypatch.setenv("JAX_COORDINATOR_ADDRESS", address)
        monkeypatch.setenv("JAX_PROCESS_ID", rank)

    return told


def join(config: Config) -> None:
    with processes.joined(config):
        pytest.fail("it has found nobody")


@pytest.mark.parametrize("rank", ["abc", "-1", "1.0"])
def test_a_rank_that_is_none(told, rank):
    told("localhost:12345", rank)
    with pytest.raises(UsageError, match=f"JAX_PROCESS_ID is one of 0, 1 … 1, got '{rank}'"):
        join(TWO)


@pytest.mark.parametrize("address", ["127.0.0.1:9", "127.0.0.1", "localhost:port", "localhost:99999999"])
def test_nobody_at_the_address(told, address):
    told(address, "1")
    with pytest.raises(UsageError, match=rf"with JAX_COORDINATOR_ADDRESS={address} and JAX_PROCESS_ID=1 this process "):
        join(TWO)


@pytest.mark.parametrize("address", ["localhost", "localhost:port", "localhost:99999999"])
def test_process_0_cannot_listen(told, address):
    told(address, "0")
    with pytest.raises(UsageError, match=rf"process 0 cannot listen at JAX_COORDINATOR_ADDRESS={address} "):
        join(TWO)


def test_processes_with_other_numbers_of_devices(monkeypatch):
    devices = [SimpleNamespace(process_index=rank, id=number) for number, rank in enumerate([0, 0, 1, 1, 2])]
    monkeypatch.setattr(jax, "devices", lambda platform: devices)
    with pytest.raises(UsageError, match="rank 2 has 1 devices, rank 0 has 2: all processes need as many"):
        join(Config())


def test_a_platform_that_is_not_there():
    for config in (Config(device="gpu"), Config(device="gpu", devices=2)):
        with pytest.raises(UsageError, match="JAX sees no GPU here; choose --device auto or cpu"):
            jax_train.train(config, "float32")


FAILS = """
import os, runpy, signal
from port.records import Heartbeat

beat = Heartbeat.__call__

def fail(self, step):
    beat(self, step)
    if step == 3 and os.environ["JAX_PROCESS_ID"] == "{rank}":
        {fails}

Heartbeat.__call__ = fail
runpy.run_module("side_by_side.jax.train", run_name="__main__", alter_sys=True)
"""


def run_two(folder: Path, rank: int, fails: str) -> subprocess.CompletedProcess[str]:
    """Two processes by our launcher; one does this at its step 3."""
    script = folder / "fails.py"
    script.write_text(FAILS.format(rank=rank, fails=fails))
    launcher = (sys.executable, "-P", "-m", "port.training.launch", "--processes", "2", "--")
    told = ("--processes", "2", "--steps", "400", "--precision", "float64", "--out", str(folder / "run"))
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    command = (*launcher, sys.executable, str(script), *told)
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.sweep
@pytest.mark.parametrize("rank", [0, 1])
def test_a_process_that_fails_by_itself_is_named_and_waits_for_nobody(rank, tmp_path):
    """JAX's orderly exit would wait five minutes for processes that wait for this one."""
    done = run_two(tmp_path, rank, 'raise OSError("no space left on the disk")')
    assert done.returncode == 1
    assert "OSError: no space left on the disk" in done.stderr
    assert f"rank {rank} of 2 was the first to fail: exit code 1" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="asks for POSIX signals")
@pytest.mark.sweep
def test_a_process_that_is_asked_to_end_does(tmp_path):
    """jax's own handler takes SIGTERM for a notice that the machine will go away, and goes on."""
    done = run_two(tmp_path, 1, "os.kill(os.getpid(), signal.SIGTERM)")
    assert done.returncode == 1
    assert "rank 1 of 2 was the first to fail: signal 15 (SIGTERM)" in done.stderr
