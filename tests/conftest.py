"""What holds for all tests."""

import datetime
import gc
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from zlib import crc32

import pytest

from port.judging import limits

pytest_plugins = ("browser",)

# Four virtual devices. Here, not in `pytest_configure`: where a test is named by its path, the conftest of its folder
# is read before that, and jax with it.
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "4")

try:
    import torch.backends
except ModuleNotFoundError:  # tests/test_without_torch.py
    pass
else:
    # torch's module database, which several tests read, freezes torch's backend flags when it is imported. The trainers
    # set some of them, in the same process.
    torch.backends.disable_global_flags = lambda: None


# A test that compares at other sizes says so: it takes as long as comparing at the given one, several times. What is
# imported later takes it as a default.
limits.SIZES_LIMIT = 0.0


def pytest_configure(config: pytest.Config) -> None:
    """Most of the short run is XLA compiling what is run once, and it leaves out costly passes.

    With the long tests, as in .ci/run, everything is compiled as users compile it, the short tests too.
    """
    # torch's threads, and those of the trainers that tests start: the cores are the workers', and a thread that waits
    # for another one takes a core's time.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # Which cases of `daily` tests this run takes: the same in every worker, also over midnight.
    os.environ.setdefault("PORT_TESTS_DAY", str(datetime.date.today().toordinal()))
    if "not sweep" not in config.option.markexpr:
        return
    os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    if "XLA_FLAGS" not in os.environ and _xla_knows(SIMPLE_LOOPS):
        os.environ["XLA_FLAGS"] = SIMPLE_LOOPS
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        # What one worker has compiled, the other one and the trainers' processes need not.
        folder = tempfile.mkdtemp(prefix="port-tests-")
        config.add_cleanup(partial(shutil.rmtree, folder, ignore_errors=True))
        os.environ["JAX_COMPILATION_CACHE_DIR"] = folder
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"


# XLA's older way to write a fused loop for the CPU: half of the time to compile (jaxlib 0.10.2).
SIMPLE_LOOPS = "--xla_cpu_use_fusion_emitters=false"


def _xla_knows(flag: str) -> bool:
    """True where XLA takes a flag; it ends the process that starts with one that it does not know."""
    start = [sys.executable, "-c", "from jaxlib import xla_client; xla_client.make_cpu_client()"]
    return subprocess.run(start, env=os.environ | {"XLA_FLAGS": flag}, capture_output=True, timeout=60).returncode == 0


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Which cases of a test are run: ``thin(n)``, ``daily(n)``.

    ``@pytest.mark.thin(n)``: the short run takes every n-th case of a test, the long run all of them.
    ``@pytest.mark.daily(n)``: the long run takes every n-th of its long cases, others every day, all of them in n days;
    or today, with ``--all-days``.

    With ``--by-turns``, for a run that follows on one of all short tests and compiles as users compile: an eighth of
    the short tests and a fourth of the long ones (of ``daily(n)`` every 4 n-th), others every day.
    """
    seen: Counter[str] = Counter()
    for item in items:
        thin = item.get_closest_marker("thin")
        if thin is not None and item.get_closest_marker("sweep") is None:
            test = item.nodeid.partition("[")[0]
            if seen[test] % thin.args[0]:
                item.add_marker(pytest.mark.sweep)
            seen[test] += 1
    if config.getoption("all_days"):
        return
    day, long = int(os.environ["PORT_TESTS_DAY"]), Counter[str]()
    others = []
    by_turns = config.getoption("by_turns")
    for item in items:
        test, daily = item.nodeid.partition("[")[0], item.get_closest_marker("daily")
        if item.get_closest_marker("sweep") is not None:
            turns = (daily.args[0] if daily is not None else 1) * (4 if by_turns else 1)
        else:
            turns = 8 if by_turns else 1
        # A test of one case has its own day: its name's.
        if (long[test] + crc32(test.encode())) % turns != day % turns:
            others.append(item)
        long[test] += 1
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in set(others)]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What the collection makes stays to the end: the garbage collector need not look through it again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()
        # Tracing makes many objects, and few circles of them.
        gc.set_threshold(50_000, 20, 100)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all-days", action="store_true", help="every case of the tests that are marked `daily`")
    parser.addoption("--by-turns", action="store_true", help="an eighth of the short tests, a fourth of the long ones")
    peer = "the Python of an environment with torchax (torch<=2.12, torchvision, torchax, jax, flax), for its benchmark"
    parser.addoption("--peer-python", metavar="PATH", default=os.environ.get("PORT_PEER_PYTHON"), help=peer)


@pytest.fixture
def optimized() -> Iterator[None]:
    """XLA with all its passes, for tests that compare the last bit."""
    import jax

    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture(autouse=True, scope="module")
def _compiled_programs_are_given_back() -> Iterator[None]:
    """Each program that XLA has compiled takes memory maps. Linux allows a process 65,530; LLVM crashes at the next."""
    yield
    # In the short run a file compiles little. In the long one a single file may need most of what there is.
    most = 30_000 if "JAX_DISABLE_MOST_OPTIMIZATIONS" in os.environ else 10_000
    if "jax" in sys.modules and _memory_maps() > most:
        import jax

        jax.clear_caches()


def _memory_maps() -> int:
    maps = Path("/proc/self/maps")
    return len(maps.read_bytes().splitlines()) if maps.exists() else 0
