"""Parse a torchrun command: the launcher with its options, and the script that it starts in each process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from port.errors import UsageError

MODULES = ("torch.distributed.run", "torch.distributed.launch")


@dataclass(frozen=True)
class Launched:
    """The parts of ``python -m torch.distributed.run --nproc-per-node 2 train.py --epochs 3``.

    Attributes:
        launcher: ``-m torch.distributed.run --nproc-per-node 2``.
        script: ``train.py``.
        arguments: ``--epochs 3``.
    """

    launcher: tuple[str, ...]
    script: str
    arguments: tuple[str, ...]


def launched(module: str, arguments: Sequence[str]) -> Launched:
    """Split a torchrun command into its parts.

    Args:
        module: one of `MODULES`.
        arguments: what follows it.

    Raises:
        UsageError: it names no script.
    """
    place = next((number for number, one in enumerate(arguments) if one.endswith(".py")), None)
    if place is None or any(one in ("-m", "--module") for one in arguments[:place]):
        raise UsageError(
            f"name the script that {module} starts, as a file: port script -m {module} -- --nproc-per-node 2 train.py"
        )
    return Launched(("-m", module, *arguments[:place]), arguments[place], tuple(arguments[place + 1 :]))
