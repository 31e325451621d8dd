"""A script beside this file in a process of its own, with eight virtual devices."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
REPOSITORY = Path(*FOLDER.parts[:-4])


def told_on_eight_devices(script: str, *arguments: str) -> Any:
    """What a script says in its last line, in JSON.

    Args:
        script: name of the file.
        arguments: of its command line.
    """
    flags = "--xla_cpu_multi_thread_eigen=false --xla_force_host_platform_device_count=8"
    path = os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
    # The tests' own settings of JAX are of four devices, and leave most of XLA's passes out.
    own = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    done = subprocess.run(
        [sys.executable, script, *arguments],
        cwd=FOLDER,
        env={**own, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])
