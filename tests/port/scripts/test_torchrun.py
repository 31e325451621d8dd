"""A command by torchrun is taken apart where the script stands in it."""

from __future__ import annotations

import pytest

from port.errors import UsageError
from port.scripts.torchrun import launched


def test_launcher_script_and_arguments() -> None:
    given = ["--nproc-per-node", "2", "--standalone", "train.py", "--config", "other.py"]
    found = launched("torch.distributed.run", given)
    assert found.launcher == ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone")
    assert found.script == "train.py" and found.arguments == ("--config", "other.py")


@pytest.mark.parametrize("given", [["--nproc-per-node", "2"], ["--nproc-per-node", "2", "-m", "my_pkg.train"]])
def test_no_script_is_refused(given: list[str]) -> None:
    with pytest.raises(UsageError, match=r"-- --nproc-per-node 2 train\.py"):
        launched("torch.distributed.run", given)
